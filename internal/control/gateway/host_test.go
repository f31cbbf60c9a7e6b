package gateway_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
	"aloft/internal/fault"
	"aloft/internal/need"
)

// TestFileUpstreamRunsNothing checks that fetches from and pushes to a
// repository of this host run none of its programs: neither hooks nor programs
// that its configuration names.
func TestFileUpstreamRunsNothing(t *testing.T) {
	w := newWorld(t, func(w *world) { w.cfg.Files = []string{w.Dir} })
	w.Repo("r", map[string]string{"a.txt": "one\n", ".gitattributes": "* filter=evil diff=evil\n"})
	ran := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(w.Dir, "evil")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >> "+ran+"\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	hooks := []string{"pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive", "pre-auto-gc", "push-to-checkout", "post-checkout"}
	elsewhere := filepath.Join(w.Dir, "hooks")
	for _, hook := range hooks {
		w.Hook("r", hook, "exec "+script+" true\n")
		gittest.Write(t, elsewhere, map[string]string{hook: "#!/bin/sh\nexec " + script + " true\n"})
		if err := os.Chmod(filepath.Join(elsewhere, hook), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	included := filepath.Join(w.Dir, "included")
	gittest.Write(t, w.Dir, map[string]string{"included": "[core]\n\talternateRefsCommand = " + script + " true\n"})
	for _, kv := range [][2]string{
		{"core.hooksPath", elsewhere}, {"core.fsmonitor", script + " true"}, {"core.alternateRefsCommand", script + " true"},
		{"core.sshCommand", script}, {"core.gitProxy", script}, {"core.askPass", script}, {"credential.helper", script},
		{"include.path", included}, {"uploadpack.packObjectsHook", script}, {"receive.procReceiveRefs", "refs/heads"},
		{"filter.evil.clean", script}, {"filter.evil.smudge", script}, {"filter.evil.process", script},
		{"diff.evil.textconv", script}, {"diff.external", script}, {"gpg.program", script},
		{"receive.certNonceSeed", "x"}, {"receive.autogc", "true"}, {"gc.auto", "1"}, {"receive.denyCurrentBranch", "updateInstead"},
		{"remote.far.url", "ext::" + script + " true"}, {"remote.far.promisor", "true"}, {"extensions.partialClone", "far"},
	} {
		gittest.Git(t, w.Path("r"), "config", kv[0], kv[1])
	}
	gittest.Write(t, w.Path("r"), map[string]string{"objects/info/alternates": w.Path("other") + "/objects\n"})
	w.Repo("other", map[string]string{"b": "b"})

	url := "file://" + w.Path("r")
	m := w.machine(t, oneRepo(url, branch))
	m.git("", "clone", "--quiet", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	if err := os.Remove(ran); err != nil && !os.IsNotExist(err) { // the test's own git may have run some of them
		t.Fatal(err)
	}
	id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	m.git("r", "fetch", "--quiet")
	if _, err := w.gw.Check(t.Context(), url, strings.Repeat("1", 40)); fault.Of(err).Code != "ref_not_found" {
		t.Errorf("a commit that is not there: %v", err)
	}
	if said, err := os.ReadFile(ran); err == nil {
		t.Errorf("the repository's programs ran:\n%s", said)
	}
	head, err := os.ReadFile(filepath.Join(w.Path("r"), "refs/heads", branch))
	if err != nil || strings.TrimSpace(string(head)) != id {
		t.Errorf("upstream has %q, %v; want %s", head, err, id)
	}
}

// TestFileUpstreamStaysInItsRoots checks that file:// URLs cannot lead outside
// of the roots, whatever links they contain.
func TestFileUpstreamStaysInItsRoots(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.cfg.Files, w.cfg.Private = []string{w.Dir}, []string{filepath.Join(w.Dir, "data")}
	})
	outside := gittest.New(t)
	outside.Repo("secret", map[string]string{"a": "a"})
	w.Repo("r", map[string]string{"a": "a"})
	w.Repo("data/disk", map[string]string{"a": "a"})
	w.Repo("borrows", map[string]string{"a": "a"})
	gittest.Write(t, w.Path("borrows"), map[string]string{"objects/info/alternates": outside.Path("secret") + "/objects\n"})
	w.Repo("refs", map[string]string{"a": "a"})
	for _, link := range [][2]string{
		{outside.Path("secret"), w.Path("link")}, {outside.Dir, filepath.Join(w.Dir, "dir")}, {filepath.Join(w.Dir, "data"), filepath.Join(w.Dir, "d")},
	} {
		if err := os.Symlink(link[0], link[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(w.Path("refs"), "objects")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside.Path("secret"), "objects"), filepath.Join(w.Path("refs"), "objects")); err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]string{
		w.Path("link"): "repo_not_found", filepath.Join(w.Dir, "dir/secret.git"): "repo_not_found", w.Path("d/disk"): "repo_not_found",
		w.Path("data/disk"): "repo_url_invalid", w.Path("borrows"): "repo_url_invalid", w.Path("refs"): "repo_not_found",
		outside.Path("secret"): "repo_url_invalid", w.Dir: "repo_not_found", w.Path("nothing"): "repo_not_found", w.Dir + "x/r.git": "repo_url_invalid",
	} {
		if _, err := w.gw.Check(t.Context(), "file://"+path, ""); fault.Of(err).Code != code {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := w.gw.Check(t.Context(), "file://"+w.Path("r"), ""); err != nil {
		t.Error(err)
	}
}

// TestFileRoots checks that the roots must not contain the server's data.
func TestFileRoots(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data/machines"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "data"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"/", "srv/git", filepath.Join(dir, "data"), filepath.Join(dir, "data/machines"), filepath.Join(dir, "link/machines"), filepath.Join(dir, "nothing")} {
		c := gateway.Config{Dir: filepath.Join(dir, "data/mirrors"), Private: []string{filepath.Join(dir, "data")}, Files: []string{root}, Environ: os.Environ()}
		if gw, err := gateway.New(c); err == nil {
			t.Errorf("%q was taken for a root", root)
			_ = gw.Close()
		} else if !strings.Contains(err.Error(), "git.allow_file") {
			t.Errorf("%q: %v", root, err)
		}
	}
}

// TestFileUpstreamIsTheOwners checks that the server accesses a repository of
// this host with the rights of the repository's owner.
func TestFileUpstreamIsTheOwners(t *testing.T) {
	need.Root(t)
	w := newWorld(t, func(w *world) { w.cfg.Files = []string{w.Dir} })
	w.Repo("r", map[string]string{"a.txt": "one\n"})
	const nobody = 65534
	for dir := w.Dir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(w.Path("r"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	})
	if err != nil {
		t.Fatal(err)
	}
	// The gateway does not read a file for the repository's owner that only
	// root may read.
	secret := filepath.Join(w.Path("r"), "refs/heads/secret")
	if err := os.WriteFile(secret, []byte(w.Branch("r", "main")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "file://" + w.Path("r")
	if got, err := w.gw.Check(t.Context(), url, ""); err == nil && got.Branches["secret"] != "" {
		t.Error("a ref that the owner may not read was read")
	}
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	m := w.machine(t, oneRepo(url, branch))
	m.git("", "clone", "--quiet", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Errorf("upstream has %q, want %s", got, id)
	}
	err = filepath.WalkDir(w.Path("r"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != nobody {
			t.Errorf("%s belongs to %d", path, info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFileUpstreamWithWorkingTree checks that a repository with a working tree
// can be an upstream, and that a push cannot change the branch that is checked
// out there.
func TestFileUpstreamWithWorkingTree(t *testing.T) {
	w := newWorld(t, func(w *world) { w.cfg.Files = []string{w.Dir} })
	dir := filepath.Join(w.Dir, "work")
	gittest.Git(t, w.Dir, "init", "--quiet", dir)
	gittest.Write(t, dir, map[string]string{"a": "a"})
	gittest.Git(t, dir, "add", ".")
	gittest.Git(t, dir, "commit", "--quiet", "-m", "first")
	url := "file://" + dir
	m := w.machine(t, gateway.Grant{Push: map[string]string{url: branch}})
	m.git("", "clone", "--quiet", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	id := m.commit("r", "more", map[string]string{"b": "b"})
	m.git("r", "push", "origin", branch)
	if got := gittest.Git(t, dir, "rev-parse", branch); got != id {
		t.Errorf("upstream has %q, want %s", got, id)
	}
	m = w.machine(t, gateway.Grant{Push: map[string]string{url: "main"}, Existing: true})
	m.git("", "clone", "--quiet", url, "r")
	m.commit("r", "more", map[string]string{"b": "b"})
	m.fails("r", []string{"push", "origin", "main"}, "checked out")
}
