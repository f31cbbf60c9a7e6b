package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
)

const branch = "aloft/x"

// checkedOut creates a machine with a clone of a repository of one commit. The
// branch that the machine may push is checked out.
func checkedOut(t *testing.T, w *world, change ...func(*gateway.Grant)) (*machine, string) {
	t.Helper()
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	grant := oneRepo(url, branch)
	for _, c := range change {
		c(&grant)
	}
	m := w.machine(t, grant)
	m.git("", "clone", "--quiet", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	return m, url
}

func TestPush(t *testing.T) {
	w := newWorld(t)
	m, url := checkedOut(t, w)
	first := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != first {
		t.Fatalf("upstream has %q, want %s", got, first)
	}
	second := m.commit("r", "still more", map[string]string{"c.txt": "three\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != second {
		t.Fatalf("upstream has %q, want %s", got, second)
	}
	if out := m.git("r", "push", "origin", branch); !strings.Contains(out, "up-to-date") {
		t.Errorf("a push of nothing says %q", out)
	}

	// The next clone has the pushed commit, and the log says who pushed it.
	m.git("", "clone", "--quiet", "--branch", branch, url, "again")
	if got := m.git("again", "rev-parse", "HEAD"); got != second {
		t.Errorf("cloned %s, want %s", got, second)
	}
	for _, want := range []string{"git push", "agent=bc-1", "run=run-1", "ref=refs/heads/" + branch, "old=" + first, "new=" + second, "outcome=done"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if strings.Contains(w.log.String(), m.credential) {
		t.Error("the log holds the machine's credential")
	}
	leftInQuarantine(t, w)
}

func TestPushInOlderProtocols(t *testing.T) {
	for _, version := range []string{"0", "1"} {
		w := newWorld(t)
		m, _ := checkedOut(t, w)
		id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
		m.git("r", "-c", "protocol.version="+version, "push", "origin", branch)
		if got := w.Branch("r", branch); got != id {
			t.Errorf("version %s: upstream has %q, want %s", version, got, id)
		}
	}
}

func leftInQuarantine(t *testing.T, w *world) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(w.cfg.Dir, "quarantine"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in quarantine: %v, %v", left, err)
	}
}

// mirrorObjects lists the objects in all mirrors.
func mirrorObjects(t *testing.T, w *world) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(w.cfg.Dir, "mirrors", "*.git"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, d := range dirs {
		all.WriteString(gittest.Git(t, d, "cat-file", "--batch-all-objects", "--batch-check"))
	}
	return all.String()
}

func TestPushRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"Main":           {[]string{"HEAD:main"}, []string{"[remote rejected] HEAD -> main (not this run's branch)", "remote: This run may push to one branch"}},
		"OtherBranch":    {[]string{"HEAD:other"}, []string{"not this run's branch", "git push origin HEAD:" + branch}},
		"Tag":            {[]string{"HEAD:refs/tags/v1"}, []string{"not this run's branch"}},
		"Notes":          {[]string{"HEAD:refs/notes/x"}, []string{"not this run's branch"}},
		"TwoRefs":        {[]string{"HEAD:" + branch, "HEAD:main"}, []string{"refused with the rest of the push", "not this run's branch"}},
		"Delete":         {[]string{"--delete", "main"}, []string{"[remote rejected] main"}},
		"Mirror":         {[]string{"--mirror"}, []string{"rejected"}},
		"BelowOurBranch": {[]string{"HEAD:" + branch + "/y"}, []string{"not this run's branch"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m, _ := checkedOut(t, w)
			m.commit("r", "more", map[string]string{"b.txt": "two\n"})
			refs, objects := gittest.Git(t, w.Path("r"), "show-ref"), mirrorObjects(t, w)
			m.fails("r", append([]string{"push", "origin"}, tt.args...), tt.want...)
			if now := gittest.Git(t, w.Path("r"), "show-ref"); now != refs {
				t.Errorf("upstream changed:\n%s\nwas:\n%s", now, refs)
			}
			if now := mirrorObjects(t, w); now != objects {
				t.Errorf("the mirror took objects:\n%s", now)
			}
			leftInQuarantine(t, w)
		})
	}
}

func TestPushToBranchThatIsTaken(t *testing.T) {
	w := newWorld(t)
	m, url := checkedOut(t, w)
	m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	theirs := w.Commit("r", branch, "theirs", map[string]string{"z.txt": "z\n"})

	// git itself rejects the non-fast-forward. With --force the gateway rejects
	// it.
	m.fails("r", []string{"push", "origin", branch}, "rejected")
	m.fails("r", []string{"push", "--force", "origin", branch}, "rejected")
	m.git("r", "fetch", "--quiet", "origin")
	m.git("r", "rebase", "--quiet", "origin/"+branch)
	m.fails("r", []string{"push", "origin", branch}, "branch taken", "remote: The branch "+branch+" already exists")
	if got := w.Branch("r", branch); got != theirs {
		t.Fatalf("upstream has %s, want theirs", got)
	}

	// A grant with Existing allows a force-push to a branch that somebody else has
	// created.
	grant := oneRepo(url, branch)
	grant.Existing, grant.Credential = true, m.credential
	if _, err := w.gw.Grant(grant); err != nil {
		t.Fatal(err)
	}
	m.git("r", "push", "origin", branch)
}

// TestPushRace creates the branch upstream while the push runs. The upstream's
// own check must refuse the push.
func TestPushRace(t *testing.T) {
	w := newWorld(t)
	m, _ := checkedOut(t, w)
	m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "config", "core.hooksPath", filepath.Join(m.dir, "hooks"))
	gittest.Write(t, m.dir, map[string]string{
		// git runs this hook after it has received the refs and before it sends
		// the pack.
		"hooks/pre-push": "#!/bin/sh\nunset GIT_DIR\nexec git -C " + w.Path("r") + " branch " + branch + " main\n",
	})
	if err := os.Chmod(filepath.Join(m.dir, "hooks/pre-push"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.fails("r", []string{"push", "origin", branch}, "branch taken")
	if got := w.Branch("r", branch); got != w.Branch("r", "main") {
		t.Fatalf("upstream's branch is %s", got)
	}
}

func TestPushForce(t *testing.T) {
	rewrite := func(t *testing.T, m *machine) string {
		m.commit("r", "more", map[string]string{"b.txt": "two\n"})
		m.git("r", "push", "origin", branch)
		m.git("r", "commit", "--quiet", "--amend", "-m", "other words")
		return m.git("r", "rev-parse", "HEAD")
	}
	t.Run("Allowed", func(t *testing.T) {
		w := newWorld(t)
		m, _ := checkedOut(t, w, func(g *gateway.Grant) { g.AllowForce = true })
		id := rewrite(t, m)
		m.git("r", "push", "--force", "origin", branch)
		if got := w.Branch("r", branch); got != id {
			t.Errorf("upstream has %s, want %s", got, id)
		}
	})
	t.Run("NotAllowed", func(t *testing.T) {
		w := newWorld(t)
		m, _ := checkedOut(t, w)
		rewrite(t, m)
		before := w.Branch("r", branch)
		m.fails("r", []string{"push", "--force", "origin", branch}, "non-fast-forward", "may not rewrite its branch")
		if got := w.Branch("r", branch); got != before {
			t.Errorf("upstream has %s, want %s", got, before)
		}
	})
}

func TestPushThatUpstreamDeclines(t *testing.T) {
	w := newWorld(t)
	m, _ := checkedOut(t, w)
	w.Hook("r", "pre-receive", "echo 'branch is protected: ask the owners' >&2\nprintf '\\033[31mred\\007\\n' >&2\nexit 1\n")
	m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	out := m.fails("r", []string{"push", "origin", branch}, "remote: branch is protected: ask the owners", "(pre-receive hook declined)")
	if strings.ContainsAny(out, "\x07") || strings.Contains(out, "\x1b[31m") {
		t.Errorf("control characters were passed on: %q", out)
	}
	w.Hook("r", "pre-receive", "exit 0\n")
	m.git("r", "push", "origin", branch)
}

func TestFirstPushToEmptyRepository(t *testing.T) {
	w := newWorld(t)
	url := w.Empty("r")
	m := w.machine(t, oneRepo(url, branch))
	m.git("", "clone", "--quiet", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	id := m.commit("r", "first", map[string]string{"a.txt": "one\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Fatalf("upstream has %q, want %s", got, id)
	}
}

func TestPushOfBranchWithoutNewCommits(t *testing.T) {
	w := newWorld(t)
	m, _ := checkedOut(t, w)
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != w.Branch("r", "main") {
		t.Fatalf("upstream has %q", got)
	}
}

func TestPushFromShallowClone(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	w.Commit("r", "main", "second", map[string]string{"a.txt": "two\n"})
	m := w.machine(t, oneRepo(url, branch))
	m.git("", "clone", "--quiet", "--depth=1", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	id := m.commit("r", "third", map[string]string{"a.txt": "three\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Fatalf("upstream has %q, want %s", got, id)
	}
}

// TestPushIsThin pushes a small change of a large file. Only the change may be
// transferred, both to the gateway and to the upstream.
func TestPushIsThin(t *testing.T) {
	w := newWorld(t)
	var big strings.Builder
	for i := range 60_000 {
		big.WriteString(strings.Repeat(string(rune('a'+i*7%26)), i%40) + "\n")
	}
	url := w.Repo("r", map[string]string{"big.txt": big.String()})
	m := w.machine(t, oneRepo(url, branch))
	m.git("", "clone", "--quiet", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	id := m.commit("r", "more", map[string]string{"big.txt": big.String() + "one line\n"})
	m.git("r", "-c", "pack.compression=0", "push", "--thin", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Fatalf("upstream has %q, want %s", got, id)
	}
	gittest.Git(t, w.Path("r"), "fsck", "--full", "--strict")
}

func TestPushOfLargeChange(t *testing.T) {
	w := newWorld(t)
	m, _ := checkedOut(t, w)
	id := m.commit("r", "large", map[string]string{"noise": noise(8 << 20)}) // the pack is larger than http.postBuffer, so git sends a probe and then chunks
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Fatalf("upstream has %q, want %s", got, id)
	}
}

func TestPushOverTheLimit(t *testing.T) {
	w := newWorld(t, func(w *world) { w.cfg.MaxPack = 1 << 20 })
	m, _ := checkedOut(t, w)
	m.commit("r", "large", map[string]string{"noise": noise(1<<20 + 1<<19)})
	m.fails("r", []string{"push", "origin", branch}, "pack exceeds maximum allowed size", "larger than 1 MiB")
	leftInQuarantine(t, w)
}

func TestPushToRepositoryForFetchingOnly(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	m := w.machine(t, gateway.Grant{Repos: []string{url}})
	m.git("", "clone", "--quiet", url, "r")
	m.fails("r", []string{"push", "origin", "HEAD:x"}, "may fetch", "but not push to it")
}

// TestClaimOutlivesServer creates a branch, restarts the gateway, and pushes
// again with the same credential.
func TestClaimOutlivesServer(t *testing.T) {
	w := newWorld(t)
	m, url := checkedOut(t, w)
	m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	if err := w.gw.Close(); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(w.cfg.Dir, "quarantine", "push-1")
	gittest.Write(t, left, map[string]string{"objects/pack/tmp_pack_x": "x"})
	w.open(t)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what a killed server left in quarantine is still there: %v", err)
	}

	grant := oneRepo(url, branch)
	grant.AgentID, grant.RunID, grant.Credential = "bc-1", "run-2", m.credential
	if _, err := w.gw.Grant(grant); err != nil {
		t.Fatal(err)
	}
	again := w.machineWith(t, m.credential)
	again.dir = m.dir
	again.git("r", "remote", "set-url", "origin", url)
	id := again.commit("r", "third", map[string]string{"c.txt": "three\n"})
	again.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Fatalf("upstream has %q, want %s", got, id)
	}

	// Another agent with the same branch name is refused.
	grant.AgentID, grant.Credential = "bc-2", ""
	other := w.machine(t, grant)
	other.git("", "clone", "--quiet", "--branch", branch, url, "r")
	other.commit("r", "fourth", map[string]string{"d.txt": "four\n"})
	other.fails("r", []string{"push", "origin", branch}, "branch taken")
}
