package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

// The agent stores a script for later machines, and proposes an environment
// file whose first version fails to build. Another agent may not store
// anything.
const helperScript = `
scripts:
  - match: 'Find out how to set up'
    turns:
      - calls:
          - {tool: Read, args: {path: "Makefile"}}
          - {tool: SetupVmEnvironment, args: {update_script: "make deps\n# kept by the agent"}}
          - {tool: Write, args: {path: ".aloft/environment.json", contents: "{\"install\": \"make nonsense\"}"}}
      - text: I propose to run make nonsense.
  - match: 'It fails'
    turns:
      - calls:
          - {tool: Write, args: {path: ".aloft/environment.json", contents: "{\"install\": \"make deps; echo by the file >> installed\"}"}}
      - text: I propose to run make deps.
  - match: 'Keep'
    turns:
      - calls:
          - {tool: SetupVmEnvironment, args: {update_script: "evil"}}
      - text: Done.
  - turns:
      - calls:
          - {tool: Shell, args: {command: "cat installed; git status --porcelain"}}
      - text: Done.
`

// An agent proposes an environment during `aloft env setup --agent`, a build
// tests it, and it applies once it is merged. A script that the agent stores
// for later machines applies at once, if the environment allows it.
func TestSetUpByAnAgent(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("app", map[string]string{".gitignore": "installed\n", "Makefile": "deps:\n\techo by make > installed\n"})
	closed := git.Repo("closed", map[string]string{".aloft/environment.json": `{"agentCanUpdateSnapshot": false}`})
	a := start(t, scripted(t, helperScript)+"environments: {watch_every: 1s}\n")
	out, err := a.command(t.Context(), "env", "setup", url, "--agent").CombinedOutput()
	for _, want := range []string{"later machines use the install script of env-", "# kept by the agent", "The agent proposes .aloft/environment.json", "make nonsense", "install ended with status 2"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the command does not say %q", want)
		}
	}
	if err == nil || t.Failed() {
		t.Fatalf("%v\n%s", err, out)
	}
	var list struct{ Items []struct{ ID string } }
	a.get("/v1/agents?limit=1", &list)
	id := list.Items[0].ID

	// The stored script applies, since the repository's file is only proposed.
	events := a.events(a.finish(a.create(url, "Look", nil)).AgentID)
	if !strings.Contains(events, `by make\n`) || !strings.Contains(events, `"layer":"bld-`) || strings.Contains(events, "by the file") {
		t.Errorf("an agent after the script was kept:\n%s", events)
	}

	a.output("agent", "follow-up", id, "It fails in a build")
	said := a.output("env", "setup", "--resume")
	if !strings.Contains(said, "The build succeeded.") {
		t.Errorf("the mended proposal: %s", said)
	}
	var p struct{ Path, Branch, EnvironmentJSON string }
	a.get("/v1/agents/"+id+"/environment", &p)
	if p.Path != ".aloft/environment.json" || !strings.HasPrefix(p.Branch, "aloft/") || !strings.Contains(p.EnvironmentJSON, "make deps") {
		t.Fatalf("proposed: %+v", p)
	}
	// The agent's disk can be saved too. The proposal then starts from that
	// snapshot.
	var saved struct{ ID, EnvironmentJSON string }
	if status, reply := a.do("POST", "/v1/agents/"+id+"/snapshots", nil); status != 201 || json.Unmarshal([]byte(reply), &saved) != nil ||
		!strings.Contains(saved.EnvironmentJSON, saved.ID) || !strings.Contains(saved.EnvironmentJSON, "make deps; echo by the file") {
		t.Errorf("saved: %d %s", status, reply)
	}
	if got := gittest.Git(t, git.Path("app"), "diff", "--name-only", "main", p.Branch); got != ".aloft/environment.json" {
		t.Errorf("its branch changes %s", got)
	}
	gittest.Git(t, git.Path("app"), "update-ref", "refs/heads/main", gittest.Git(t, git.Path("app"), "rev-parse", p.Branch))
	if events = a.events(a.finish(a.create(url, "Look", nil)).AgentID); !strings.Contains(events, `by make\nby the file\n`) {
		t.Errorf("an agent after the merge:\n%s", events)
	}

	// The server builds a change on the default branch before anybody asks for
	// the build.
	git.Commit("app", "main", "More", map[string]string{".aloft/environment.json": `{"install": "make deps; echo more >> installed"}`})
	var builds struct {
		Items []struct{ Status, Trigger string }
	}
	eventually(t, "the change is built", func() bool {
		a.get("/v1/builds?repo="+url, &builds)
		return len(builds.Items) == 2 && builds.Items[0].Status == "SUCCEEDED"
	})
	if events = a.events(a.finish(a.create(url, "Look", nil)).AgentID); !strings.Contains(events, `by make\nmore\n`) || strings.Contains(events, `"name":"environment","state":"running"`) {
		t.Errorf("an agent after the change:\n%s", events)
	}

	events = a.events(a.finish(a.create(closed, "Keep something", nil)).AgentID)
	if !strings.Contains(events, `"code":"agent_may_not_save"`) || strings.Contains(events, "environment.script") {
		t.Errorf("where agents may not:\n%s", events)
	}
	r := a.finish(a.create(url, "Look", nil))
	if status, body := a.do("GET", "/v1/agents/"+r.AgentID+"/environment", nil); status != 404 || !strings.Contains(body, "no_proposal") {
		t.Errorf("one that proposes nothing: %d %s", status, body)
	}
}
