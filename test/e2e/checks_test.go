package e2e

import (
	"fmt"
	"strings"
	"testing"

	"aloft/internal/control/forge/forgetest"
	"aloft/internal/control/gateway/gittest"
)

// A failed check sends the agent back to work; the pull request names the
// checks that have passed on the pushed commit.
func TestChecksOfARun(t *testing.T) {
	t.Parallel()
	git, host := gittest.New(t), forgetest.NewGitea(t)
	url := git.Repo("acme/widget", map[string]string{"README.md": "w\n", ".aloft/environment.json": `{"checks": ["test -f README.md"]}`})
	git.SetAuth("x-access-token", forgetest.Token)
	const branch = "aloft/work"
	host.Fake.Push(host.Repo, branch)
	a := start(t, scripted(t, `
scripts:
  - match: checks failed on it
    turns:
      - calls: [{tool: Write, args: {path: /workspace/hello.txt, contents: "hello\n"}}]
      - text: Now it says hello.
  - turns:
      - calls: [{tool: Write, args: {path: /workspace/hello.txt, contents: "helo\n"}}]
      - text: It says hello.
`)+fmt.Sprintf("policy: {run_mode: run-everything}\ngit:\n  credentials:\n    - {url: %s, token: %q, forge: gitea, api: %s}\n", git.URL, forgetest.Token, host.API))
	const check = "cat hello.txt; touch left-over; grep -q hello hello.txt"
	r := a.finish(a.create(url, "Write a file", object{"autoCreatePR": true, "branchName": branch, "checks": []string{check}}))
	var shown struct {
		Status, Result, Outcome string
		Evidence                struct {
			Rounds int
			Stale  bool
			Checks []struct {
				Command, State, Output string
				ExitCode               *int
			}
		}
	}
	a.get(r.path(), &shown)
	e := shown.Evidence
	if shown.Status != "FINISHED" || shown.Outcome != "done" || shown.Result != "Now it says hello." || e.Rounds != 2 || e.Stale || len(e.Checks) != 2 {
		t.Fatalf("%+v; the last of the journal:\n%s", shown, last(a.events(r.AgentID)))
	}
	if c := e.Checks[0]; c.Command != check || c.State != "passed" || *c.ExitCode != 0 || !strings.Contains(c.Output, "hello") {
		t.Errorf("the check of the request: %+v", c)
	}
	if c := e.Checks[1]; c.Command != "test -f README.md" || c.State != "passed" {
		t.Errorf("the check of the environment: %+v", c)
	}
	if log := a.events(r.AgentID); !strings.Contains(log, "failed with exit status 1") || !strings.Contains(log, "helo") {
		t.Errorf("the model was not told of the failure:\n%s", last(log))
	}
	if got := gittest.Git(t, git.Path("acme/widget"), "show", branch+":hello.txt"); got != "hello" {
		t.Errorf("hello.txt holds %q", got)
	}
	if all := host.Fake.PullRequests(host.Repo); len(all) != 1 || !strings.Contains(all[0].Body, "- `"+check+"` passed (") || !strings.Contains(all[0].Body, "- `test -f README.md` passed (") {
		t.Errorf("the forge has %+v", all)
	}
}
