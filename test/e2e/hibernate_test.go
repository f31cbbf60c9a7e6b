package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/gateway/gittest"
)

// output runs an aloft command, and returns its output.
func (a *aloft) output(args ...string) string {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	out, err := a.command(ctx, args...).CombinedOutput()
	if err != nil {
		a.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// machineIs waits until `aloft agent show` shows the given state of the
// machine.
func (a *aloft) machineIs(agentID, want string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		_, is, _ := strings.Cut(a.output("agent", "show", agentID), "machine:")
		if is, _, _ = strings.Cut(strings.TrimSpace(is), "\n"); strings.HasPrefix(is, want) && (want != "" || is == "") {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			a.t.Fatalf("the machine is never %q, but %q", want, is)
		}
	}
}

// TestHibernate leaves a machine unused. It sleeps and uses no memory, wakes
// with its disk for a visitor, works on a follow-up, and sleeps again. The
// server finally removes it, and another follow-up gets a new machine.
func TestHibernate(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("sleepy", map[string]string{"README.md": "sleepy\n", ".cursor/environment.json": `{"user": "ubuntu", "env": {"KEPT": "of its environment"}}`})
	config := scripted(t, crashScript) + "\nmachine:\n  idle_minutes: 0.03\n" // 2 s
	a := start(t, config)
	r := a.finish(a.create(url, "Write one line", nil))
	a.machineIs(r.AgentID, "hibernated on its disk")
	if got := a.events(r.AgentID); !strings.Contains(got, `"code":"no_memory"`) || !strings.Contains(got, "by runc") {
		t.Errorf("it is not said why its processes are not saved: %s", got)
	}
	eventually(t, "none of its processes run", func() bool { return exec.Command("pgrep", "-f", "--", "--root="+a.Data).Run() != nil })
	if got := a.output("agent", "exec", r.AgentID, "--", "sh", "-c", "echo mine > /var/tmp/mine; echo $KEPT; id -un"); got != "of its environment\nubuntu\n" {
		t.Errorf("woken by a visitor it says %q", got)
	}
	a.machineIs(r.AgentID, "hibernated")
	if got := a.output("agent", "exec", r.AgentID, "--", "cat", "/var/tmp/mine"); got != "mine\n" {
		t.Errorf("after it woke: %q", got)
	}
	a.Stop()
	if err := os.WriteFile(a.config, []byte(config+"  retention_days: 0.00002\noutbound: {open: [127.0.0.1/32]}\n"), 0o600); err != nil { // 2 s
		t.Fatal(err)
	}
	a.Start()
	a.machineIs(r.AgentID, "") // the machine is removed
	a.output("agent", "follow-up", r.AgentID, "Write another line")
	if out, err := a.command(t.Context(), "agent", "exec", r.AgentID, "--", "cat", "/var/tmp/mine").CombinedOutput(); err == nil {
		t.Errorf("the expired disk is there: %s", out)
	}
	a.machineIs(r.AgentID, "")
}

const aliveScript = `
scripts:
  - match: Count
    turns:
      - calls: [{tool: Shell, args: {command: "(n=0; while :; do n=$((n+1)); echo $n > /dev/shm/n.new; mv /dev/shm/n.new /dev/shm/n; sleep 0.05; done) >/dev/null 2>&1 & cd /var/tmp; KEPT=kept"}}]
      - calls: [{tool: Shell, args: {command: "tmux new-session -d -s work 'echo scrolled; exec cat'"}}]
      - text: It counts.
  - match: Look
    turns:
      - calls: [{tool: Shell, args: {command: "pwd > /workspace/seen.txt; echo $KEPT >> /workspace/seen.txt"}}]
      - text: It was seen.
`

// counts waits until a counter in the agent's machine has changed, and returns
// its value.
func (a *aloft) counts(agentID string) (n int) {
	a.t.Helper()
	out := a.output("agent", "exec", agentID, "--", "sh", "-c", `a=$(cat /dev/shm/n); while b=$(cat /dev/shm/n); [ "$b" -le "$a" ]; do sleep 0.01; done; echo $b`)
	if _, err := fmt.Sscan(out, &n); err != nil {
		a.t.Fatalf("%v: %s", err, out)
	}
	return n
}

// TestSleepsAlive puts a machine with its processes to sleep, under gVisor. A
// background counter continues, the terminal keeps its lines, the agent's shell
// keeps its working directory, and the agent is told how long the machine
// slept.
func TestSleepsAlive(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("alive", map[string]string{"README.md": "alive\n"})
	a := start(t, scripted(t, aliveScript)+"\nmachine:\n  class: strong\n  strong: "+runsc(t)+"\n  idle_minutes: 0.04\n")
	r := a.finish(a.create(url, "Count", nil))
	before := 0
	for range 2 {
		a.machineIs(r.AgentID, "hibernated with its processes")
		eventually(t, "none of its processes run", func() bool { return exec.Command("pgrep", "-f", "--", "--root="+a.Data).Run() != nil })
		n := a.counts(r.AgentID)
		if n <= before {
			t.Errorf("it counts %d after %d", n, before)
		}
		before = n
	}
	if got := a.output("agent", "exec", r.AgentID, "--", "tmux", "capture-pane", "-p", "-t", "work"); !strings.HasPrefix(got, "scrolled\n") {
		t.Errorf("the terminal shows %q", got)
	}
	a.machineIs(r.AgentID, "hibernated with its processes")
	r = a.finish(a.followUp(r, "Look"))
	if got := gittest.Git(t, git.Path("alive"), "show", pushed(t, r)+":seen.txt"); got != "/var/tmp\nkept" {
		t.Errorf("the agent's shell was in %q", got)
	}
	if got := a.events(r.AgentID); !strings.Contains(got, "The machine slept for ") {
		t.Errorf("the agent is not told: %s", got)
	}

	// Two forks continue from the sleeping machine, each with its own
	// processes, disk and credentials.
	var f forked
	eventually(t, "nobody is in the machine", func() bool {
		status, reply := a.do("POST", "/v1/agents/"+r.AgentID+"/fork", object{"n": 2, "prompt": object{"text": "Look"}})
		return status == http.StatusCreated && json.Unmarshal([]byte(reply), &f) == nil
	})
	if !f.Live || !f.Disk {
		t.Fatalf("forked: %+v", f)
	}
	const tokens = "sudo sha256sum /run/aloft-git/management-token /run/aloft-git/inside-token"
	const random = "cat /proc/sys/kernel/random/uuid; head -c 16 /dev/urandom | sha256sum"
	seen := map[string]bool{}
	its := func(id, what, command string) {
		t.Helper()
		got := a.output("agent", "exec", id, "--", "sh", "-c", command)
		if seen[got] {
			t.Errorf("it has another's %s: %s", what, got)
		}
		seen[got] = true
	}
	its(r.AgentID, "credentials", tokens)
	its(r.AgentID, "machine id", "cat /etc/machine-id")
	from := a.counts(r.AgentID)
	for _, i := range f.Items {
		one := a.finish(run{AgentID: i.Agent.ID, ID: i.Run.ID})
		if got := gittest.Git(t, git.Path("alive"), "show", pushed(t, one)+":seen.txt"); got != "/var/tmp\nkept" {
			t.Errorf("its shell was in %q", got)
		}
		if n := a.counts(one.AgentID); n <= before {
			t.Errorf("it counts %d after %d", n, before)
		}
		its(one.AgentID, "credentials", tokens)
		its(one.AgentID, "machine id", "cat /etc/machine-id")
		its(one.AgentID, "randomness", random)
		var clock int64
		earliest := time.Now().Unix()
		got := a.output("agent", "exec", one.AgentID, "--", "date", "+%s")
		if _, err := fmt.Sscan(got, &clock); err != nil || clock < earliest-1 || clock > time.Now().Unix()+1 {
			t.Errorf("its clock says %q, want from %d to %d", got, earliest, time.Now().Unix())
		}
		if got := a.events(one.AgentID); !strings.Contains(got, "as copies of the other agent's") {
			t.Errorf("it is not told: %s", got)
		}
		a.output("agent", "exec", one.AgentID, "--", "sh", "-c", "echo 0 > /dev/shm/n; rm -rf /var/tmp/*") // each fork has its own counter
	}
	if n := a.counts(r.AgentID); n <= from {
		t.Errorf("the one counts %d after %d", n, from)
	}
	if n := a.layers("fork"); n != 0 {
		t.Errorf("%d saved disks are kept for nobody", n)
	}
	if left, err := filepath.Glob(filepath.Join(a.Data, "*/layers/memory/*")); err != nil || len(left) > 0 {
		t.Errorf("memory is kept for nobody: %v, %v", left, err)
	}
}
