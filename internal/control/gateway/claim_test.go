package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"aloft/internal/control/gateway"
)

// forced may rewrite its branch, as every run's grant says.
func forced(g *gateway.Grant) { g.AllowForce = true }

// TestClaimEndsWithAPushThatFailed has the first push of a branch fail. Somebody
// else then makes a branch of that name: it is not the agent's.
func TestClaimEndsWithAPushThatFailed(t *testing.T) {
	for name, tt := range map[string]struct{ spoil, mend func(*world) }{
		"Declined": {
			func(w *world) { w.Hook("r", "pre-receive", "echo 'try later' >&2; exit 1\n") },
			func(w *world) { w.Hook("r", "pre-receive", "exit 0\n") },
		},
		"NeverReached": {
			func(w *world) {
				w.Down(func(r *http.Request) bool { return strings.Contains(r.URL.String(), "receive-pack") })
			},
			func(w *world) { w.Down(nil) },
		},
		"Died": { // before it took the branch
			func(w *world) { w.Hook("r", "pre-receive", "kill -9 $PPID\n") },
			func(w *world) { w.Hook("r", "pre-receive", "exit 0\n") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m, _ := checkedOut(t, w, forced)
			m.commit("r", "more", map[string]string{"b.txt": "two\n"})
			tt.spoil(w)
			m.fails("r", []string{"push", "origin", branch})
			tt.mend(w)
			theirs := w.Commit("r", branch, "theirs", map[string]string{"z.txt": "z\n"})
			m.fails("r", []string{"push", "--force", "origin", branch}, "branch taken")
			if got := w.Branch("r", branch); got != theirs {
				t.Errorf("somebody else's branch was overwritten: %s was %s", got, theirs)
			}
		})
	}
}

// TestClaimOfAPushThatWasNotAnswered has the upstream take the first push and die
// before it says so: the branch is the agent's, also for a server that starts
// again.
func TestClaimOfAPushThatWasNotAnswered(t *testing.T) {
	w := newWorld(t)
	m, url := checkedOut(t, w, forced)
	first := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	w.Hook("r", "post-receive", "kill -9 $PPID\n")
	m.fails("r", []string{"push", "origin", branch})
	if got := w.Branch("r", branch); got != first {
		t.Fatalf("the upstream has %q, want %s", got, first)
	}
	w.Hook("r", "post-receive", "exit 0\n")
	if err := w.gw.Close(); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	grant := oneRepo(url, branch)
	forced(&grant)
	again := w.machine(t, grant)
	again.dir = m.dir
	again.git("r", "commit", "--quiet", "--amend", "-m", "other words")
	second := again.git("r", "rev-parse", "HEAD")
	again.git("r", "push", "--force", "origin", branch)
	if got := w.Branch("r", branch); got != second {
		t.Errorf("the upstream has %q, want %s", got, second)
	}
}
