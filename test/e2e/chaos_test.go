package e2e

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

// TestChaos kills the server, exec-daemons and machines at random while agents
// work. Whatever is killed, every run ends, no command runs twice, and nothing
// is left behind.
func TestChaos(t *testing.T) {
	t.Parallel()
	const agents, kills = 6, 24
	git := gittest.New(t)
	url := git.Repo("crash", map[string]string{"README.md": "crash\n"})
	a := start(t, scripted(t, crashScript))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	runs := make([]run, agents)
	for i := range runs {
		runs[i] = a.create(url, "Write one line", nil)
	}
	// The test kills a machine at most three times, since a run fails when it
	// has lost its machine five times.
	const mostLost = 3
	lost := map[string]int{}
	for range kills {
		// A new event in the journal of a random agent triggers each kill.
		r := runs[random.IntN(agents)]
		before, polls := a.events(r.AgentID), 0
		eventually(t, "something has happened", func() bool {
			polls++
			return polls > 20 || a.events(r.AgentID) != before
		})
		victim := runs[random.IntN(agents)].AgentID
		switch n := random.IntN(4); {
		case n == 0:
			a.Kill()
			a.Start()
		case n == 3 && lost[victim] < mostLost:
			lost[victim]++
			shoot(t, victim, "pod-daemon")
		default:
			shoot(t, victim, "exec-daemon")
		}
	}
	// If a call's command wrote no line, the call's result must tell the model
	// that the call was lost.
	told := regexp.MustCompile(`"call\.done".*(of its effect|never started)`)
	ran := 0
	for _, r := range runs {
		r = a.wait(r)
		if r.Status != "FINISHED" {
			code, message, _, _ := a.why(r)
			t.Errorf("the run is %s: %s: %s", r.Status, code, message)
			continue
		}
		out, _ := gittest.Command(t, git.Path("crash"), "show", pushed(t, r)+":ran.txt").Output() // a machine may die before the command ran
		n := strings.Count(string(out), "ran")
		ran += n
		switch {
		case n > 1:
			t.Errorf("the command ran %d times", n)
		case n == 0 && !told.MatchString(a.events(r.AgentID)):
			t.Errorf("the command did not run, and the model was not told:\n%s", last(a.events(r.AgentID)))
		}
	}
	if ran == 0 {
		t.Error("no command ran in any machine")
	}
}

// shoot kills the processes of the agent's machine whose command line contains
// the word.
func shoot(t *testing.T, agentID, word string) {
	for _, pid := range processes(t, agentID, word) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // the process may have ended already
	}
}
