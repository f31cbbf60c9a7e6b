package e2e

import (
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

// Two runs change a file. Git notes at the git server say which run made each
// commit, and the third run finds out with AiAttribution who wrote the lines.
func TestAttribution(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("lines", map[string]string{"a.txt": "one\n"})
	a := start(t, scripted(t, `
scripts:
  - match: begin
    turns:
      - calls:
          - {tool: Shell, args: {command: "echo two >> a.txt"}}
      - text: Done.
  - match: go on
    turns:
      - calls:
          - {tool: Shell, args: {command: "echo three >> a.txt"}}
      - text: Done.
  - match: who wrote
    turns:
      - calls:
          - {tool: AiAttribution, args: {file_paths: ["a.txt"]}}
      - text: Done.
`))
	first := a.finish(a.create(url, "begin", nil))
	noted := func(r run) bool {
		commit := git.Branch("lines", pushed(t, r))
		note, err := gittest.Command(t, git.Path("lines"), "notes", "--ref=aloft", "show", commit).Output()
		return err == nil && string(note) == "Agent: "+r.AgentID+"\nRun: "+r.ID+"\n"
	}
	eventually(t, "the first run's commit has a note", func() bool { return noted(first) })
	second := a.finish(a.followUp(first, "go on"))
	eventually(t, "the second run's commit has a note", func() bool { return noted(second) })
	third := a.finish(a.followUp(second, "who wrote that?"))
	events := a.events(first.AgentID)
	for _, want := range []string{"  2-2 commit ", "agent " + first.AgentID + " run " + first.ID, "  3-3 commit ", "agent " + first.AgentID + " run " + second.ID} {
		if !strings.Contains(events, want) {
			t.Errorf("the result lacks %q:\n%s", want, last(events))
		}
	}
	if strings.Contains(events, "run "+third.ID+"\\n") {
		t.Error("a run that pushed nothing has written lines")
	}
}
