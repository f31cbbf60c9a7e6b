package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
)

// noise returns n bytes of text that hardly compresses. Calls with the same n
// return the same text.
func noise(n int) string {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(' ' + r.IntN(95))
	}
	return string(b)
}

// tree returns many small files in several folders.
func tree(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("d%02d/s%d/f%d.txt", i%37, i%7, i)] = noise(200+i%300) + "\n"
	}
	return files
}

func TestClone(t *testing.T) {
	for _, version := range []string{"0", "1", "2"} {
		t.Run("Protocol"+version, func(t *testing.T) {
			w := newWorld(t)
			url := w.Repo("r", tree(300))
			gittest.Git(t, w.Path("r"), "tag", "v1", "main")
			gittest.Git(t, w.Path("r"), "update-ref", "refs/pull/1/head", "main")
			w.Commit("r", "dev", "second", map[string]string{"new.txt": "new\n"})
			m := w.machine(t, gateway.Grant{Repos: []string{url}})
			m.git("", "-c", "protocol.version="+version, "clone", url, "r")
			if got := m.git("r", "rev-parse", "HEAD"); got != w.Branch("r", "main") {
				t.Errorf("cloned %s", got)
			}
			if got := m.git("r", "rev-parse", "origin/dev", "v1"); got != w.Branch("r", "dev")+"\n"+w.Branch("r", "main") {
				t.Errorf("origin/dev and v1 are %s", got)
			}
			if refs := m.git("r", "ls-remote", "origin"); strings.Contains(refs, "aloft") || strings.Contains(refs, "pull") {
				t.Errorf("refs that are not for machines:\n%s", refs)
			}
			// Fetch new commits with a long list of haves.
			next := w.Commit("r", "main", "third", map[string]string{"more.txt": "more\n"})
			m.git("r", "-c", "protocol.version="+version, "pull", "--quiet")
			if got := m.git("r", "rev-parse", "HEAD"); got != next {
				t.Errorf("pulled %s, want %s", got, next)
			}
		})
	}
}

// TestSecondCloneIsCheap measures how many bytes the upstream sends for a
// second machine's clone.
func TestSecondCloneIsCheap(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", tree(2000))
	sent := func() (n int64) {
		for _, r := range w.Requests() {
			n += r.Sent
		}
		return n
	}
	w.machine(t, gateway.Grant{Repos: []string{url}}).git("", "clone", "--quiet", url, "r")
	first := sent()
	w.machine(t, gateway.Grant{Repos: []string{url}}).git("", "clone", "--quiet", url, "r")
	second := sent()
	if first < 100_000 || second > 2000 {
		t.Errorf("the upstream sent %d bytes for the first clone, %d for the second", first, second)
	}
}

func TestManyClonesAtOnce(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", tree(200))
	var clones sync.WaitGroup
	for range 20 {
		m := w.machine(t, gateway.Grant{Repos: []string{url}})
		clones.Go(func() {
			if out, err := m.try("", "clone", "--quiet", url, "r"); err != nil {
				t.Errorf("clone: %v\n%s", err, out)
			}
		})
	}
	clones.Wait()
	packs := 0
	for _, r := range w.Requests() {
		if r.Sent > 10_000 {
			packs++
		}
	}
	if packs != 1 {
		t.Errorf("the upstream sent the repository %d times", packs)
	}
}

func TestCloneVariants(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", tree(50))
	first := w.Branch("r", "main")
	w.Commit("r", "main", "second", map[string]string{"new.txt": "new\n"})
	m := w.machine(t, gateway.Grant{Repos: []string{url}})
	m.git("", "clone", "--quiet", "--depth=1", url, "shallow")
	m.git("shallow", "fetch", "--quiet", "--unshallow")
	m.git("", "clone", "--quiet", "--filter=blob:none", url, "partial")
	m.git("", "init", "--quiet", "bare")
	m.git("bare", "fetch", "--quiet", url, first)
	if got := m.git("bare", "rev-parse", "FETCH_HEAD"); got != first {
		t.Errorf("fetched %s, want %s", got, first)
	}
	// Other spellings of the same URL.
	m.git("", "clone", "--quiet", strings.TrimSuffix(url, ".git"), "without")
	m.git("", "clone", "--quiet", url+"/", "slash")
}

// TestSubmodule fetches a submodule whose repository the grant includes.
func TestSubmodule(t *testing.T) {
	w := newWorld(t)
	lib := w.Repo("lib", map[string]string{"lib.txt": "lib\n"})
	url := w.Repo("r", map[string]string{"a.txt": "one\n", ".gitmodules": "[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib.git\n"})
	work := t.TempDir()
	gittest.Git(t, work, "clone", "--quiet", w.Path("r"), ".")
	gittest.Git(t, work, "update-index", "--add", "--cacheinfo", "160000,"+w.Branch("lib", "main")+",lib")
	gittest.Git(t, work, "commit", "--quiet", "-m", "lib")
	gittest.Git(t, work, "push", "--quiet", "origin", "main")

	m := w.machine(t, gateway.Grant{Repos: []string{url, lib}})
	m.git("", "clone", "--quiet", "--recurse-submodules", url, "r")
	if got := m.git("r/lib", "rev-parse", "HEAD"); got != w.Branch("lib", "main") {
		t.Errorf("lib is at %s", got)
	}
}

func TestUpstreamChangesAreFollowed(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a.txt": "one\n"})
	w.Commit("r", "x", "x", map[string]string{"x": "x"})
	m := w.machine(t, gateway.Grant{Repos: []string{url}})
	m.git("", "clone", "--quiet", url, "r")
	// Delete the branch, create a branch below its name, and make HEAD point to
	// the new branch.
	gittest.Git(t, w.Path("r"), "branch", "-D", "x")
	id := w.Commit("r", "x/y", "y", map[string]string{"y": "y"})
	gittest.Git(t, w.Path("r"), "symbolic-ref", "HEAD", "refs/heads/x/y")
	m.git("r", "fetch", "--quiet", "--prune")
	m.git("", "clone", "--quiet", url, "again")
	if got := m.git("again", "rev-parse", "HEAD"); got != id {
		t.Errorf("cloned %s, want the new default branch, %s", got, id)
	}
	if got := m.git("r", "branch", "--remotes", "--list", "origin/x"); got != "" {
		t.Errorf("a branch that is gone is still there: %s", got)
	}
}

func TestFileUpstream(t *testing.T) {
	w := newWorld(t, func(w *world) { w.cfg.Files = []string{w.Dir} })
	w.Repo("r", map[string]string{"a.txt": "one\n"})
	url := "file://" + w.Path("r")
	m := w.machine(t, oneRepo(url, branch))
	m.git("", "clone", "--quiet", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Errorf("upstream has %q, want %s", got, id)
	}
	// For file:// URLs, .git is part of the name.
	m.fails("", []string{"clone", strings.TrimSuffix(url, ".git"), "other"}, "may not use the repository")
}

func TestSHA256Repository(t *testing.T) {
	w := newWorld(t)
	dir := w.Path("r")
	gittest.Git(t, w.Dir, "init", "--quiet", "--bare", "--object-format=sha256", dir)
	gittest.Git(t, dir, "config", "http.receivepack", "true")
	url := w.URL + "/r.git"
	work := t.TempDir()
	gittest.Git(t, work, "init", "--quiet", "--object-format=sha256")
	gittest.Git(t, work, "commit", "--quiet", "--allow-empty", "-m", "first")
	gittest.Git(t, work, "push", "--quiet", dir, "main")
	m := w.machine(t, oneRepo(url, branch))
	m.git("", "clone", "--quiet", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id || len(id) != 64 {
		t.Errorf("upstream has %q, want %s", got, id)
	}
}
