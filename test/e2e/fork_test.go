package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

const forkScript = `
scripts:
  - match: Try it
    turns:
      - calls: [{tool: Shell, args: {command: "cat left.txt one.txt ../var/tmp/mark > seen.txt; git branch --show-current"}}]
      - text: It was tried.
  - match: Begin
    turns:
      - calls: [{tool: Shell, args: {command: "echo one > one.txt; echo mark | sudo tee /var/tmp/mark"}}]
      - text: It has begun.
`

type forked struct {
	Turn  int
	Disk  bool
	Live  bool
	Items []struct {
		Agent struct{ ID, ForkedFrom string }
		Run   struct{ ID string }
	}
}

func (a *aloft) fork(id string, body object) (f forked, runs []run) {
	a.t.Helper()
	status, reply := a.do("POST", "/v1/agents/"+id+"/fork", body)
	if status != http.StatusCreated {
		a.t.Fatalf("fork: %d %s\n%s", status, reply, a.log)
	}
	if err := json.Unmarshal([]byte(reply), &f); err != nil {
		a.t.Fatal(err)
	}
	for _, i := range f.Items {
		runs = append(runs, run{AgentID: i.Agent.ID, ID: i.Run.ID})
	}
	return f, runs
}

// layers returns the number of saved disks of the given kind.
func (a *aloft) layers(kind string) int {
	a.t.Helper()
	var kept []struct{ ID string }
	if err := json.Unmarshal([]byte(a.output("snapshot", "list", "--json", "--data", a.Data)), &kept); err != nil {
		a.t.Fatal(err)
	}
	n := 0
	for _, l := range kept {
		if strings.HasPrefix(l.ID, kind+"-") {
			n++
		}
	}
	return n
}

// TestFork forks an agent three times with copies of its disk. Each fork sees
// the original's work, committed or not, and works on its own branch. It
// affects neither the other forks nor the original, which continues too. The
// server deletes the saved disk when all forks have started.
func TestFork(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("fork", map[string]string{"README.md": "fork\n"})
	a := start(t, scripted(t, forkScript))
	r := a.finish(a.create(url, "Begin", nil))
	branch := pushed(t, r)
	a.output("agent", "exec", r.AgentID, "--", "sh", "-c", "cd /workspace && echo uncommitted > left.txt")
	f, runs := a.fork(r.AgentID, object{"n": 3, "prompt": object{"text": "Try it"}})
	if !f.Disk || f.Turn != 2 || len(runs) != 3 || f.Items[0].Agent.ForkedFrom != r.AgentID {
		t.Fatalf("forked: %+v", f)
	}
	seen := map[string]bool{branch: true}
	for _, r := range runs {
		r = a.finish(r)
		own := pushed(t, r)
		if seen[own] {
			t.Errorf("branch %s is another's", own)
		}
		seen[own] = true
		if got := gittest.Git(t, git.Path("fork"), "show", own+":seen.txt"); got != "uncommitted\none\nmark" {
			t.Errorf("%s has seen %q", r.AgentID, got)
		}
		if got := a.events(r.AgentID); !strings.Contains(got, "continues separately") || !strings.Contains(got, own) {
			t.Errorf("it is not told what it is: %s", got)
		}
	}
	if n := a.layers("fork"); n != 0 {
		t.Errorf("%d saved disks are kept for nobody", n)
	}
	if got := a.output("agent", "exec", r.AgentID, "--", "sh", "-c", "cd /workspace && cat left.txt && ls && git branch --show-current"); got != "uncommitted\nREADME.md\nleft.txt\none.txt\n"+branch+"\n" {
		t.Errorf("of the one there is %q", got)
	}
	a.finish(a.followUp(r, "Begin"))
	if got := a.output("agent", "compare", runs[0].AgentID, runs[1].AgentID); strings.Count(got, "It was tried.") != 2 || !strings.Contains(got, "+uncommitted") {
		t.Errorf("compare: %s", got)
	}
}

// TestForkOfAnEarlierTurn checks that a fork of an earlier turn starts from the
// commit that was pushed at that time, and that its agent is told so.
func TestForkOfAnEarlierTurn(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("fork", map[string]string{"README.md": "fork\n"})
	a := start(t, scripted(t, strings.ReplaceAll(forkScript, "left.txt one.txt ../var/tmp/mark", "one.txt")))
	r := a.finish(a.create(url, "Begin", nil))
	then := gittest.Git(t, git.Path("fork"), "rev-parse", pushed(t, r))
	a.finish(a.followUp(r, "Try it"))
	f, runs := a.fork(r.AgentID, object{"turn": 2, "prompt": object{"text": "Try it"}})
	if f.Disk || f.Turn != 2 {
		t.Fatalf("forked: %+v", f)
	}
	own := pushed(t, a.finish(runs[0]))
	if got := gittest.Git(t, git.Path("fork"), "rev-parse", own+"^"); got != then {
		t.Errorf("it began at %s, want %s", got, then)
	}
	if got := a.events(runs[0].AgentID); !strings.Contains(got, "Your machine is new") || !strings.Contains(got, "the last commit that had been pushed then") {
		t.Errorf("it is not told what it is: %s", got)
	}
	out, err := a.command(t.Context(), "agent", "fork", r.AgentID, "--wait", "--turn", "2", "Try it", "Try it once more").CombinedOutput()
	if err != nil || strings.Count(string(out), "It was tried.") != 2 || !strings.Contains(string(out), "Changes not pushed by then are missing") {
		t.Errorf("%v: %s", err, out)
	}
	snapshot := a.output("snapshot", "create", r.AgentID)
	if a.layers("snapshot") != 1 || !strings.Contains(snapshot, "snapshot-") {
		t.Errorf("saved: %s", snapshot)
	}
	if got := a.output("agent", "exec", r.AgentID, "--", "cat", "/workspace/seen.txt"); got != "one\n" {
		t.Errorf("it woke with %q", got)
	}
}

// TestForkIsKilled kills the server during forks, again and again. Every fork
// that exists afterwards works, and no unused disk is kept.
func TestForkIsKilled(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("fork", map[string]string{"README.md": "fork\n"})
	a := start(t, scripted(t, strings.ReplaceAll(forkScript, "left.txt ", "")))
	r := a.finish(a.create(url, "Begin", nil))
	for _, sign := range []string{"machine.hibernated", "machine.saved", "agent.forked"} {
		before := strings.Count(a.events(r.AgentID), `"`+sign+`"`)
		cli := a.command(t.Context(), "agent", "fork", r.AgentID, "-n", "2", "Try it")
		if err := cli.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cli.Wait(); close(ended) }()
		eventually(t, sign, func() bool {
			select {
			case <-ended:
				return true
			default:
				return strings.Count(a.events(r.AgentID), `"`+sign+`"`) > before
			}
		})
		a.Kill()
		<-ended
		a.Start()
		var list struct {
			Items []struct{ ID, LatestRunID string }
		}
		a.get("/v1/agents?limit=100", &list)
		for _, i := range list.Items {
			if i.ID != r.AgentID {
				a.finish(run{AgentID: i.ID, ID: i.LatestRunID})
			}
		}
		a.Stop()
		a.Start() // deletes disks that no agent needs
		eventually(t, "no disk is kept for nobody", func() bool { return a.layers("fork") == 0 })
	}
	_, runs := a.fork(r.AgentID, object{"prompt": object{"text": "Try it"}})
	a.finish(runs[0])
}
