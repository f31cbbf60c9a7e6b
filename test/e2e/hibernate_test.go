package e2e

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/gateway/gittest"
)

// said runs a command of the person at the terminal, and returns what it says.
func (a *aloft) said(args ...string) string {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	out, err := a.command(ctx, args...).CombinedOutput()
	if err != nil {
		a.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// machineIs waits until `aloft agent show` says so of the machine.
func (a *aloft) machineIs(agentID, want string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		_, is, _ := strings.Cut(a.said("agent", "show", agentID), "machine:")
		if is, _, _ = strings.Cut(strings.TrimSpace(is), "\n"); strings.HasPrefix(is, want) && (want != "" || is == "") {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			a.t.Fatalf("the machine is never %q: %s\n%s", want, a.said("agent", "show", agentID), a.log)
		}
	}
}

// TestHibernate leaves a machine alone: it sleeps and takes no memory, wakes
// with its disk when somebody comes, works a follow-up, sleeps again, and is
// removed in the end, after which another follow-up gets another machine.
func TestHibernate(t *testing.T) {
	git := gittest.New(t)
	url := git.Repo("sleepy", map[string]string{"README.md": "sleepy\n"})
	a := start(t, scripted(t, crashScript)+"\nmachine:\n  idle_minutes: 0.03\n  retention_days: 0.0002\n") // 2 s, 17 s
	r := a.finish(a.create(url, "Write one line", nil))
	a.machineIs(r.AgentID, "hibernated")
	if out, err := exec.Command("pgrep", "-f", "--", "--root="+a.Data).CombinedOutput(); err == nil {
		t.Errorf("processes of it run: %s", out)
	}
	a.said("agent", "exec", r.AgentID, "--", "sh", "-c", "echo mine > /var/tmp/mine")
	a.machineIs(r.AgentID, "hibernated")
	if got := a.said("agent", "exec", r.AgentID, "--", "cat", "/var/tmp/mine"); got != "mine\n" {
		t.Errorf("after it woke: %q", got)
	}
	a.machineIs(r.AgentID, "") // and is gone at last
	a.said("agent", "follow-up", r.AgentID, "Write another line")
	a.machineIs(r.AgentID, "hibernated")
	if out, err := a.command(t.Context(), "agent", "exec", r.AgentID, "--", "cat", "/var/tmp/mine").CombinedOutput(); err == nil {
		t.Errorf("the expired disk is there: %s", out)
	}
}
