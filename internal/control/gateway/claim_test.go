package gateway_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
)

// forced allows force-pushes of its branch, as every run's grant does.
func forced(g *gateway.Grant) { g.AllowForce = true }

// TestClaimEndsWithAPushThatFailed has the first push of a branch fail. If
// somebody else then creates a branch of that name, it must not count as the
// agent's.
func TestClaimEndsWithAPushThatFailed(t *testing.T) {
	for name, tt := range map[string]struct{ spoil, fix func(*world) }{
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
		"Died": { // the upstream dies before it creates the branch
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
			tt.fix(w)
			theirs := w.Commit("r", branch, "theirs", map[string]string{"z.txt": "z\n"})
			m.fails("r", []string{"push", "--force", "origin", branch}, "branch taken")
			if got := w.Branch("r", branch); got != theirs {
				t.Errorf("somebody else's branch was overwritten: %s was %s", got, theirs)
			}
		})
	}
}

// TestClaimOfADeclinedCommit has the upstream decline a push, and somebody else push
// the same commit to a branch of that name. The branch must not count as the
// agent's.
func TestClaimOfADeclinedCommit(t *testing.T) {
	w := newWorld(t)
	m, _ := checkedOut(t, w, forced)
	commit := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	w.Hook("r", "pre-receive", "echo 'try later' >&2; exit 1\n")
	m.fails("r", []string{"push", "origin", branch})
	w.Hook("r", "pre-receive", "exit 0\n")
	gittest.Git(t, w.Path("r"), "fetch", "--quiet", filepath.Join(m.dir, "r"), "HEAD:refs/heads/"+branch)
	m.git("r", "commit", "--quiet", "--amend", "-m", "other words")
	m.fails("r", []string{"push", "--force", "origin", branch}, "branch taken")
	if got := w.Branch("r", branch); got != commit {
		t.Errorf("somebody else's branch was overwritten: %s was %s", got, commit)
	}
}

// TestClaimOfAPushThatWasNotAnswered has the upstream accept the first push and
// die before it replies. The branch must count as the agent's, even after a
// restart of the server.
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

// TestClaimOfADeletedBranch deletes the agent's branch upstream, as a merge
// does, and has somebody else create a branch of that name from the merged
// work. The agent may add commits to that branch but not overwrite it, even in
// a later run.
func TestClaimOfADeletedBranch(t *testing.T) {
	w := newWorld(t)
	m, url := checkedOut(t, w, forced)
	m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	gittest.Git(t, w.Path("r"), "update-ref", "refs/heads/main", branch) // the branch is merged
	gittest.Git(t, w.Path("r"), "branch", "-D", branch)
	gittest.Git(t, w.Path("r"), "branch", branch, "main")
	theirs := w.Commit("r", branch, "theirs", map[string]string{"z.txt": "z\n"})
	for name, grant := range map[string]func(*gateway.Grant){
		"SameRun": forced,
		"Later":   func(g *gateway.Grant) { forced(g); g.Pushed = []string{url} },
	} {
		t.Run(name, func(t *testing.T) {
			g := oneRepo(url, branch)
			grant(&g)
			g.AgentID, g.Credential = "bc-1", m.credential
			if _, err := w.gw.Grant(g); err != nil {
				t.Fatal(err)
			}
			m.git("r", "fetch", "--quiet", "origin")
			m.fails("r", []string{"push", "--force", "origin", branch}, "commits of others")
			m.git("r", "commit", "--quiet", "--amend", "-m", "words of "+name)
			m.fails("r", []string{"push", "--force", "origin", branch}, "commits of others")
			if got := w.Branch("r", branch); got != theirs {
				t.Fatalf("somebody else's branch was overwritten: %s was %s", got, theirs)
			}
		})
	}
	m.git("r", "reset", "--quiet", "--hard", "origin/"+branch)
	added := m.commit("r", "added", map[string]string{"c.txt": "three\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != added {
		t.Errorf("the upstream has %s, want %s", got, added)
	}
	m.git("r", "commit", "--quiet", "--amend", "-m", "rewritten") // the agent's own commit
	m.git("r", "push", "--force", "origin", branch)
}

// TestClaimAfterADeletion has the agent push again after its branch was
// deleted. The push must create the branch again, and the branch must belong to
// the agent.
func TestClaimAfterADeletion(t *testing.T) {
	w := newWorld(t)
	m, _ := checkedOut(t, w, forced)
	m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	gittest.Git(t, w.Path("r"), "branch", "-D", branch)
	m.git("r", "fetch", "--quiet", "--prune", "origin")
	for _, words := range []string{"again", "and again"} {
		m.git("r", "commit", "--quiet", "--amend", "-m", words)
		m.git("r", "push", "--force", "origin", branch)
	}
	if got, want := w.Branch("r", branch), m.git("r", "rev-parse", "HEAD"); got != want {
		t.Errorf("the upstream has %s, want %s", got, want)
	}
}

// TestClaimOfAnotherServer uses a server that never saw the agent's push. The server
// knows from the journal that the branch is the agent's, and must let the agent add
// commits.
func TestClaimOfAnotherServer(t *testing.T) {
	w := newWorld(t)
	m, url := checkedOut(t, w, forced)
	m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	if err := w.gw.Close(); err != nil {
		t.Fatal(err)
	}
	w.cfg.Dir = t.TempDir()
	w.open(t)
	grant := oneRepo(url, branch)
	forced(&grant)
	grant.Pushed = []string{url}
	again := w.machine(t, grant)
	again.dir = m.dir
	again.git("r", "commit", "--quiet", "--amend", "-m", "other words")
	again.fails("r", []string{"push", "--force", "origin", branch}, "commits of others")
	again.git("r", "reset", "--quiet", "--hard", "origin/"+branch)
	again.commit("r", "added", map[string]string{"c.txt": "three\n"})
	again.git("r", "push", "origin", branch)
	again.git("r", "commit", "--quiet", "--amend", "-m", "other words")
	again.git("r", "push", "--force", "origin", branch)
}
