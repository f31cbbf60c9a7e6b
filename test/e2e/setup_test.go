package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

const setUpScript = `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "cat /etc/set-up-by-hand installed; git status --porcelain; git branch --show-current"}}
      - text: Done.
`

// inMachine runs a command in an agent's machine, as a user would.
func (a *aloft) inMachine(agentID, command string) string {
	a.t.Helper()
	return a.output("agent", "exec", agentID, "--", "sh", "-c", command)
}

// setUp creates a machine that a person can set up.
func (a *aloft) setUp(url string, more object) run {
	a.t.Helper()
	env := object{"type": "cloud", "preset": "setup"}
	for k, v := range more {
		env[k] = v
	}
	return a.finish(a.create(url, "Set up a machine.", object{"env": env}))
}

// try tests an environment in the agent's machine, and returns the last line of
// the reply.
func (a *aloft) try(r run, text string) (last string) {
	a.t.Helper()
	status, reply := a.do("POST", "/v1/agents/"+r.AgentID+"/environment/try", object{"environmentJson": text})
	if status != 200 {
		a.t.Fatalf("try: %d %s", status, reply)
	}
	lines := strings.Split(strings.TrimSpace(reply), "\n")
	return lines[len(lines)-1]
}

// A person sets up a machine while the server is killed and restarted. The
// person saves its disk, and proposes, tests and commits an environment. New
// agents start from that environment.
func TestSetUp(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("app", map[string]string{
		".gitignore": "installed\n", "package.json": `{"scripts":{"dev":"sleep 600"}}`, "Makefile": "deps:\n\techo by make > installed\n",
		".cursor/environment.json": `{"install": "echo not in a set-up; exit 1", "start": "exit 1", "terminals": [{"command": "sleep 600"}]}`,
	})
	other := git.Repo("other", map[string]string{"README": "x"})
	a := start(t, scripted(t, setUpScript))
	r := a.setUp(url, nil)
	events := a.events(r.AgentID)
	for _, not := range []string{`"name":"install"`, `"name":"start"`, `"name":"terminal `, "turn.replied"} {
		if strings.Contains(events, not) {
			t.Errorf("the machine that is to be set up has %s\n%s", not, events)
		}
	}
	a.inMachine(r.AgentID, "echo set up > /tmp/x && sudo cp /tmp/x /etc/set-up-by-hand; echo 'make deps' >> ~/.bash_history")
	a.Kill()
	a.Start()
	status, reply := a.do("POST", "/v1/agents/"+r.AgentID+"/snapshots", nil)
	var saved struct{ ID, EnvironmentJSON string }
	if err := json.Unmarshal([]byte(reply), &saved); err != nil || status != 201 {
		t.Fatalf("%d %s", status, reply)
	}
	for _, want := range []string{`"snapshot": "` + saved.ID + `"`, `"install": "make deps"`, `"command": "npm run dev"`} {
		if !strings.Contains(saved.EnvironmentJSON, want) {
			t.Errorf("the proposal does not have %s\n%s", want, saved.EnvironmentJSON)
		}
	}
	// The restarted machine has its disk.
	if got := a.inMachine(r.AgentID, "cat /etc/set-up-by-hand"); got != "set up\n" {
		t.Errorf("after the snapshot the machine has %q", got)
	}

	// The server reports an environment that cannot be built, or whose snapshot
	// belongs to someone else, and changes nothing.
	if last := a.try(r, `{"snapshot": "`+saved.ID+`", "install": "echo oh no; exit 3"}`); !strings.Contains(last, `"status":"FAILED"`) || !strings.Contains(last, `status 3\noh no`) {
		t.Errorf("a draft that fails: %s", last)
	}
	if last := a.try(a.setUp(other, nil), `{"snapshot": "`+saved.ID+`"}`); !strings.Contains(last, `"code":"base_missing"`) {
		t.Errorf("another repository's snapshot: %s", last)
	}
	if status, reply := a.do("POST", "/v1/agents/"+r.AgentID+"/environment/commit", object{"environmentJson": `{"install": 5}`}); status != 400 {
		t.Errorf("a wrong one is committed: %d %s", status, reply)
	}
	if last := a.try(r, saved.EnvironmentJSON); !strings.Contains(last, `"status":"SUCCEEDED"`) {
		t.Fatalf("the draft: %s", last)
	}
	status, reply = a.do("POST", "/v1/agents/"+r.AgentID+"/environment/commit", object{"environmentJson": saved.EnvironmentJSON})
	var committed struct{ Path, Branch, Commit string }
	if err := json.Unmarshal([]byte(reply), &committed); err != nil || status != 200 || committed.Path != ".cursor/environment.json" {
		t.Fatalf("%d %s", status, reply)
	}
	if got := gittest.Git(t, git.Path("app"), "diff", "--name-only", "main", committed.Branch); got != ".cursor/environment.json" {
		t.Errorf("committed: %s", got)
	}
	gittest.Git(t, git.Path("app"), "update-ref", "refs/heads/main", committed.Commit)
	if status, reply := a.do("POST", "/v1/agents/"+r.AgentID+"/archive", nil); status != 200 {
		t.Fatalf("%d %s", status, reply)
	}

	// Agents of the repository start from the environment, which is built once.
	for i := range 2 {
		events = a.events(a.finish(a.create(url, "Look", nil)).AgentID)
		if !strings.Contains(events, `set up\nby make\naloft/look`) || !strings.Contains(events, `"layer":"bld-`) || strings.Contains(events, `"name":"install"`) {
			t.Errorf("start %d\n%s", i, events)
		}
		if strings.Contains(events, `"name":"environment","state":"running"`) != (i == 0) {
			t.Errorf("start %d: a build was made: %v\n%s", i, i != 0, events)
		}
	}

	a.prints(t, " MiB ", "env", "snapshots", url)
	a.prints(t, "Deleted "+saved.ID, "env", "snapshots", "--delete", saved.ID)
	if status, reply := a.do("GET", "/v1/snapshots", nil); status != 200 || strings.Contains(reply, saved.ID) {
		t.Errorf("a deleted snapshot: %d %s", status, reply)
	}
}

// Builds get the secrets of the team and of their environment, but no personal
// secrets. No secret is stored with a build, and deleting an environment
// deletes its secrets.
func TestSecretsOfABuild(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("app", map[string]string{".gitignore": "installed\n"})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "cat installed; test ${#ENV_TOKEN} = 19 && test ${#TEAM_TOKEN} = 23 && test ${#OWN_TOKEN} = 16 && echo all are here"}}
      - text: Done.
`))
	put := func(path, value string) {
		t.Helper()
		if status, reply := a.do("PUT", path, object{"value": value}); status != 200 {
			t.Fatalf("%s: %d %s", path, status, reply)
		}
	}
	status, reply := a.do("POST", "/v1/environments", object{
		"owner": "personal", "name": "app", "repos": []object{{"url": url}},
		"environmentJson": `{"install": "echo env ${#ENV_TOKEN} team ${#TEAM_TOKEN} own ${#OWN_TOKEN} > installed; echo token is $ENV_TOKEN; echo $TEAM_TOKEN | base64"}`,
	})
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(reply), &made); err != nil || status != 201 {
		t.Fatalf("%d %s", status, reply)
	}
	put("/v1/environments/"+made.ID+"/secrets/ENV_TOKEN", "environment-value-1")
	put("/v1/team/secrets/TEAM_TOKEN", "the-value-of-the-team-1")
	put("/v1/secrets/OWN_TOKEN", "personal-value-1")
	events := a.events(a.finish(a.create(url, "Look", nil)).AgentID)
	if !strings.Contains(events, `env 19 team 23 own 0\nall are here`) {
		t.Errorf("the build and the agent got\n%s", events)
	}
	logs, err := filepath.Glob(filepath.Join(a.Data, "builds", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	log := string(text)
	if !strings.Contains(log, "token is ") || strings.Contains(log, "environment-value") || strings.Contains(log, "dGhlLXZhbHVl") {
		t.Errorf("the log of the build:\n%s", log)
	}
	for _, secret := range []string{"environment-value", "the-value-of-the-team"} {
		if strings.Contains(events, secret) {
			t.Errorf("%s is in the journal", secret)
		}
	}
	if status, reply := a.do("DELETE", "/v1/environments/"+made.ID, nil); status != 200 {
		t.Fatalf("%d %s", status, reply)
	}
	status, _ = a.do("PUT", "/v1/environments/"+made.ID+"/secrets/ENV_TOKEN", object{"value": "again"})
	if status != 404 {
		t.Errorf("a secret of an environment that is gone: %d", status)
	}
}
