package e2e

import (
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

const environmentScript = `
scripts:
  - turns:
      - text: I look at what is here.
        calls:
          - {tool: Shell, args: {command: "echo user=$(id -un) app=$APP_ENV; cat /tmp/started installed; git status --porcelain; tmux list-sessions -F '#{session_name}'"}}
      - text: Done.
`

// A repository's environment.json is done in the machine, as its user and with
// its variables: install, start, terminals; and what fails there is told and
// hides nothing.
func TestEnvironmentOfTheRepository(t *testing.T) {
	git := gittest.New(t)
	url := git.Repo("app", map[string]string{
		".gitignore": "installed\n",
		".cursor/environment.json": `{
  // as found in the wild
  "user": "ubuntu",
  "env": {"APP_ENV": "test"},
  "install": "echo \"install by $(id -un) in $PWD as $APP_ENV\" | tee installed\necho more >&2",
  "start": "echo up > /tmp/started; (sleep 600 &) ; echo noise",
  "terminals": [{"name": "Run Next.js", "command": "echo serving; sleep 600", "description": "serves"}, [{"command": "sleep 600"}],],
  "instal": "x",
}`,
	})
	a := start(t, scripted(t, environmentScript))
	events := a.events(a.finish(a.create(url, "Look", nil)).AgentID)
	for _, want := range []string{
		"environment.json at ", `warning: instal: there is no such key`,
		`"name":"install","state":"done"`, `install by ubuntu in /workspace as test\nmore\n`,
		`"name":"start","state":"done"`, `"name":"terminal Run-Next-js","state":"done"`, `"name":"terminal terminal-2","state":"done"`,
		`user=ubuntu app=test`, `up\ninstall by ubuntu`, `Run-Next-js\nterminal-2`, `- Run-Next-js: serves`,
	} {
		if !strings.Contains(events, want) {
			t.Errorf("the journal does not have %s", want)
		}
	}
	if strings.Contains(events, "?? installed") {
		t.Error("what install made is not ignored")
	}
	if t.Failed() {
		t.Log(events)
	}

	git.Commit("app", "broken", "Break it", map[string]string{
		".cursor/environment.json": `{"user": "nobody-there", "image": 5, "install": "echo no network; exit 7", "start": "echo half; false", "terminals": [{"command": "sleep 600"}]}`,
	})
	events = a.events(a.finish(a.create("", "Look", object{"repos": []object{{"url": url, "startingRef": "broken"}}})).AgentID)
	for _, want := range []string{
		`"name":"install","state":"failed"`, `The environment's install ended with status 7\nno network`,
		`"name":"start","state":"failed"`, `The environment's start ended with status 1\nhalf`,
		`"name":"terminal terminal-1","state":"done"`, `there is no user nobody-there in the machine`, `error: image: this is the number 5`,
		`The environment's file has mistakes`,
	} {
		if !strings.Contains(events, want) {
			t.Errorf("the journal of the broken one does not have %s", want)
		}
	}
	if t.Failed() {
		t.Log(events)
	}
}
