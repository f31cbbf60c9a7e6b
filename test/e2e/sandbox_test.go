package e2e

import (
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// In auto-review mode, a command that is on no list runs in a real machine's
// sandbox. It can write only to the workspace, and the model gets an
// explanation of each denial. A request for more goes to the classifier, which
// refuses here. The policy comes from the agent's starting commit: an allowed
// command that changes the file has no effect.
func TestAutoReviewSandboxes(t *testing.T) {
	t.Parallel()
	need.Root(t)
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "hello\n", ".cursor/permissions.json": `{"terminalAllowlist":["cp"]}`,
		".cursor/sandbox.json": `{"disableTmpWrite": true}`, "loose.json": `{"type": "insecure_none", "additionalReadwritePaths": ["/home/ubuntu", "/tmp"]}`})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "cp loose.json .cursor/sandbox.json"}}
      - calls:
          - {tool: Shell, args: {command: "touch /tmp/beside"}}
      - calls:
          - {tool: Shell, args: {command: "echo made > made.txt; echo \"in $CURSOR_SANDBOX\"; touch /home/ubuntu/outside; echo x >> .git/hooks/pre-commit; sudo -n id"}}
      - calls:
          - {tool: Shell, args: {command: "touch /home/ubuntu/outside", required_permissions: [all]}}
      - calls:
          - {tool: Read, args: {path: /home/ubuntu/outside}}
      - text: Done.
`)+"policy:\n  run_mode: auto-review\n  deny_after: 1s\n")
	r := a.finish(a.create(url, "Try it", nil))
	if got := gittest.Git(t, git.Path("r"), "show", pushed(t, r)+":made.txt"); got != "made" {
		t.Errorf("made.txt is %q", got)
	}
	events := a.events(r.AgentID)
	for _, want := range []string{`"treatment":"sandboxed"`, "in native", `"treatment":"refused"`,
		"sandbox: /tmp/beside may not be changed", "sandbox: /home/ubuntu/outside may not be changed", "protected .git/hooks"} {
		if !strings.Contains(events, want) {
			t.Errorf("the journal does not have %s", want)
		}
	}
	if strings.Contains(events, "uid=0") {
		t.Error("a command in the sandbox became root")
	}
	if strings.Count(events, `"treatment":"run"`) != 2 { // cp and Read
		t.Error("a command ran outside of the sandbox")
	}
	if t.Failed() {
		t.Log(events)
	}
}

// The operator configures the sandbox for hooks, and for an environment's start
// command and terminals. Each tries to write where it may, and where it may
// not.
func TestSandboxAlso(t *testing.T) {
	t.Parallel()
	need.Root(t)
	git := gittest.New(t)
	try := func(name string) string {
		return "echo " + name + " in $CURSOR_SANDBOX > " + name + ".txt; touch /home/ubuntu/" + name + " .git/hooks/" + name + " && echo ESCAPED >> " + name + ".txt"
	}
	url := git.Repo("r", map[string]string{
		".cursor/environment.json": `{"start": "` + try("start") + `; true", "terminals": [{"name": "t", "command": "` + try("terminal") + `"}]}`,
		".cursor/hooks.json":       `{"version": 1, "hooks": {"beforeShellExecution": [{"command": "` + try("hook") + `; true"}]}}`,
	})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "timeout 20 sh -c 'until test -s terminal.txt; do sleep 0.1; done'; cat start.txt terminal.txt hook.txt; ls /home/ubuntu; ls .git/hooks | grep -v sample; echo end"}}
      - text: Done.
`)+"policy:\n  sandbox_also: [hooks, start, terminals]\n")
	r := a.finish(a.create(url, "Try it", nil))
	events := a.events(r.AgentID)
	if !strings.Contains(events, `start in native\nterminal in native\nhook in native\nend\n`) {
		t.Error(events)
	}
}
