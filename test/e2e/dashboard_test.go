package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

const watched = `
scripts:
  - match: shorter
    turns:
      - text: It is shorter.
  - match: terminal
    turns:
      - calls: [{tool: Shell, args: {command: "tmux list-sessions -F '#{session_name}' | xargs -n 1 tmux capture-pane -pt", description: "look at the terminals"}}]
      - text: I see it.
  - match: polite
    turns:
      - text: It is polite.
  - match: Greet
    turns:
      - text: "I'll write it **now**."
        calls: [{tool: Write, args: {path: greeting.txt, contents: "hello\n"}}]
      - calls: [{tool: Shell, args: {command: "cat greeting.txt", description: "read it back"}}]
      - text: The greeting is there.
  - match: louder
    turns:
      - calls:
          - tool: AskQuestion
            args: {title: Loudness, questions: [{id: how, prompt: How loud is it to be?, options: [{id: bit, label: A little}, {id: very, label: In capitals}]}]}
      - calls: [{tool: StrReplace, args: {path: greeting.txt, old_string: hello, new_string: HELLO}}]
      - text: It is louder.
`

// A person signs in, makes an agent by keyboard, watches it, sends a follow-up,
// sees what it has changed, and types in its machine, which the agent sees:
// web/test/person.ts does it, in a browser, under the policy that the server sends.
func TestDashboardInABrowser(t *testing.T) {
	need.Command(t, "chromium")
	npm := need.Command(t, "npm")
	web, err := filepath.Abs("../../web")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "the dashboard's packages", filepath.Join(web, "node_modules", ".package-lock.json"))
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, watched))
	cmd := exec.CommandContext(t.Context(), npm, "run", "--silent", "--prefix", web, "person")
	cmd.Env = append(os.Environ(), "ALOFT_URL="+a.URL, "ALOFT_API_KEY="+a.Key, "ALOFT_TEST_REPO="+url)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
