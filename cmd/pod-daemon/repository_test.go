package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/pod"
	"aloft/internal/policy/sandbox"
)

func TestCommitPushDiff(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	ready := m.mustBoot(c, pod.Checkout{Branch: "aloft/x-1", AuthorName: "Ann", AuthorEmail: "ann@example.com"})
	main := f.tip("main")

	if got, err := c.Commit(t.Context(), 0, "nothing", false, nil); err != nil || got.Made || got.Commit != ready.BaseCommit {
		t.Errorf("commit of nothing: %+v, %v", got, err)
	}
	sh := m.shell(c)
	sh.run(`echo changed >> one; mkdir d; printf 'new\n' > 'd/a file'; rm two; printf '\377\376' > bytes; echo x > ignored; echo ignored > .gitignore`)
	diff, truncated, err := c.Diff(t.Context(), 0, "")
	if err != nil || truncated {
		t.Fatal(err, truncated)
	}
	for _, want := range []string{"+changed", "+++ b/d/a file", "deleted file mode", ".gitignore"} {
		if !strings.Contains(diff, want) {
			t.Errorf("diff lacks %q:\n%s", want, diff)
		}
	}
	if strings.Contains(diff, "b/ignored") {
		t.Errorf("diff has an ignored file:\n%s", diff)
	}
	if got := sh.run("git diff --cached --name-only; ls .git | grep index; ls " + m.disk + "/git/scratch"); got != "index" {
		t.Errorf("the user's index after a diff: %q", got)
	}

	got, err := c.Commit(t.Context(), 0, "a title\n\nand -- a body", false, nil)
	if err != nil || !got.Made || got.Note != "" {
		t.Fatalf("commit: %+v, %v", got, err)
	}
	if log := sh.run("git log -1 --format='%an %ae %s|%b'"); log != "Ann ann@example.com a title|and -- a body" {
		t.Errorf("log: %q", log)
	}
	pushed, err := c.Push(t.Context(), 0, "aloft/x-1", false, nil)
	commit := pushed.Commit
	if err != nil || commit != got.Commit || f.tip("aloft/x-1") != commit {
		t.Errorf("push: %s, %v; the forge has %s", commit, err, f.tip("aloft/x-1"))
	}
	if f.tip("main") != main {
		t.Error("main has moved")
	}

	// Another machine continues from the pushed branch.
	n := newMachine(t)
	n.start()
	if after := n.mustBoot(n.dial(f), pod.Checkout{Branch: "aloft/x-1", Resume: true}); after.BaseCommit != ready.BaseCommit || after.Branch != "aloft/x-1" {
		t.Errorf("resumed: %+v, began as %+v", after, ready)
	}
	if text, err := os.ReadFile(filepath.Join(n.workspace(), "d", "a file")); err != nil || string(text) != "new\n" {
		t.Errorf("resumed tree: %q, %v", text, err)
	}
}

func TestPushRefused(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Ref: "old", Branch: "b"})
	sh := m.shell(c)
	sh.run("echo mine > mine; git add -A; git commit -q -m mine")
	refused := func(what, code, says string, err error) {
		t.Helper()
		g, ok := errors.AsType[*pod.GitError](err)
		if !ok || g.Code != code || !strings.Contains(g.Detail, says) {
			t.Errorf("%s: %v, want %s with %q", what, err, code, says)
		}
	}
	_, err := c.Push(t.Context(), 0, "main", false, nil)
	refused("push to a branch that has gone on", pod.CodeBranchTaken, "rejected", err)

	if err := os.WriteFile(filepath.Join(f.repo("r"), "hooks", "pre-receive"), []byte("#!/bin/sh\necho not today >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = c.Push(t.Context(), 0, "b", false, nil)
	refused("push that the forge declines", pod.CodeDenied, "not today", err)

	if err := c.SetGitCredential(t.Context(), "stale"); err != nil {
		t.Fatal(err)
	}
	_, err = c.Push(t.Context(), 0, "b", false, nil)
	refused("push with a stale credential", pod.CodeDenied, "this credential is not known", err)
	if err := c.SetGitCredential(t.Context(), "two words"); err == nil {
		t.Error("a credential with a space was taken")
	}

	if err := c.SetGitCredential(t.Context(), "cred-of-the-run"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.repo("r"), "hooks", "pre-receive")); err != nil {
		t.Fatal(err)
	}
	sh.run(`printf '#!/bin/sh\nexit 1\n' > .git/hooks/pre-push; chmod +x .git/hooks/pre-push`)
	_, err = c.Push(t.Context(), 0, "b", false, nil)
	refused("push that a hook of the project refuses", pod.CodeHookFailed, "exit status 1", err)
	if got, err := c.Push(t.Context(), 0, "b", true, nil); err != nil || !strings.Contains(got.Note, "pre-push") || f.tip("b") != got.Commit {
		t.Errorf("push past a hook of the project: %+v, %v", got, err)
	}
}

func TestCommitPastAHook(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	m.shell(c).run(`printf '#!/bin/sh\nid -un > by; echo style is wrong >&2; exit 1\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo x > x`)
	_, err := c.Commit(t.Context(), 0, "x", false, nil)
	if g, ok := errors.AsType[*pod.GitError](err); !ok || g.Code != pod.CodeHookFailed || !strings.Contains(g.Detail, "style is wrong") {
		t.Errorf("commit: %v", err)
	}
	if by := m.shell(c).run("cat by; id -un"); strings.Count(by, "\n") != 1 || strings.Split(by, "\n")[0] != strings.Split(by, "\n")[1] {
		t.Errorf("the hook ran as, and the user is: %q", by)
	}
	got, err := c.Commit(t.Context(), 0, "x", true, nil)
	if err != nil || !got.Made || !strings.Contains(got.Note, "commit hooks") {
		t.Errorf("commit: %+v, %v", got, err)
	}
}

// TestHooksInTheSandbox has an agent write hooks and a filter's program, as a
// sandboxed command could do if the project's configuration names files in the
// workspace. Commits and pushes must run these programs only in the sandbox.
func TestHooksInTheSandbox(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	sh := m.shell(c)
	policy := sandbox.Default()
	sh.run(`git config core.hooksPath .husky; mkdir .husky; for hook in pre-commit commit-msg post-commit pre-push; do ` +
		`printf '#!/bin/sh\nid -un >> .git/hooks/pwned\necho "%s $CURSOR_SANDBOX" >> ran\nexit 0\n' $hook > .husky/$hook; chmod +x .husky/$hook; done`)
	got, err := c.Commit(t.Context(), 0, "x", false, &policy)
	if err != nil || !got.Made || got.Note != "the project's commit hooks left changes behind" {
		t.Errorf("commit: %+v, %v", got, err)
	}
	if _, err := c.Push(t.Context(), 0, "b", false, &policy); err != nil || f.tip("b") != got.Commit {
		t.Errorf("push: %v", err)
	}
	if ran := sh.run("sort -u ran; ls .git/hooks | grep -c pwned"); ran != "commit-msg native\npost-commit native\npre-commit native\npre-push native\n0\nexit status 1" {
		t.Errorf("the hooks ran as %q", ran)
	}
	sh.run("echo y > y")
	if _, err := c.Commit(t.Context(), 0, "x", false, nil); err != nil {
		t.Fatal(err)
	}
	if ran := sh.run("ls .git/hooks/pwned"); ran != ".git/hooks/pwned" {
		t.Errorf("without a policy the hooks ran elsewhere than outside: %q", ran)
	}
}

// TestDamagedClone has an agent damage its clone's configuration and delete its
// clone. Its work must still be pushed.
func TestDamagedClone(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	sh := m.shell(c)
	for i, damage := range []string{
		"git remote remove origin; git config core.worktree /tmp; git config url./nowhere.insteadOf https://",
		"printf '\\377[' > .git/config; printf x > .git/index; rm .git/HEAD",
	} {
		sh.run("echo " + strings.Repeat("x", i+1) + " > work; " + damage)
		if diff, _, err := c.Diff(t.Context(), 0, ""); err != nil || !strings.Contains(diff, "+++ b/work") {
			t.Errorf("%s: diff %q, %v", damage, diff, err)
		}
		got, err := c.Commit(t.Context(), 0, "x", false, nil)
		if err != nil || !got.Made {
			t.Fatalf("%s: commit: %+v, %v", damage, got, err)
		}
		if _, err := c.Push(t.Context(), 0, "b", false, nil); err != nil || f.tip("b") != got.Commit {
			t.Errorf("%s: push: %v", damage, err)
		}
	}
}

// TestUnpushedWorkIsAnArtifact checks that commits that the forge declines are
// stored as an artifact, unless they contain a secret.
func TestUnpushedWorkIsAnArtifact(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	m.shell(c).run("echo mine > mine")
	got, err := c.Commit(t.Context(), 0, "x", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(f.repo("r"), "hooks", "pre-receive")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho not today >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = c.Push(t.Context(), 0, "b", false, nil)
	g, ok := errors.AsType[*pod.GitError](err)
	if !ok || g.Bundle != "unpushed-"+filepath.Base(m.workspace())+".bundle" {
		t.Fatalf("push: %v", err)
	}
	f.git("-C", f.repo("r"), "fetch", "-q", filepath.Join(m.disk, "artifacts", g.Bundle), "HEAD:rescued")
	if f.tip("rescued") != got.Commit {
		t.Errorf("the bundle has %s, want %s", f.tip("rescued"), got.Commit)
	}
	if err := os.Remove(filepath.Join(m.disk, "artifacts", g.Bundle)); err != nil {
		t.Fatal(err)
	}
	_, err = m.dial(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "! [remote rejected] b -> b (secret in push)", http.StatusForbidden)
	})).Push(t.Context(), 0, "b", false, nil)
	if g, ok := errors.AsType[*pod.GitError](err); !ok || g.Bundle != "" || g.Code != pod.CodeSecretInPush {
		t.Errorf("push of a secret: %+v", err)
	}
	if err := stat(m.disk, "artifacts", "unpushed-"+filepath.Base(m.workspace())+".bundle"); err == nil {
		t.Error("commits with a secret were kept")
	}
}

func TestEmptyRepository(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{RepoURL: "https://git.example.com/o/empty.git", Branch: "aloft/first"})
	if got, err := c.Commit(t.Context(), 0, "x", false, nil); err != nil || got.Made || got.Commit != "" {
		t.Errorf("commit of nothing: %+v, %v", got, err)
	}
	_, err := c.Push(t.Context(), 0, "aloft/first", false, nil)
	if g, ok := errors.AsType[*pod.GitError](err); !ok || g.Code != pod.CodeNoCommit {
		t.Errorf("push of nothing: %v", err)
	}
	m.shell(c).run("echo first > first")
	if diff, _, err := c.Diff(t.Context(), 0, ""); err != nil || !strings.Contains(diff, "+first") {
		t.Errorf("diff: %q, %v", diff, err)
	}
	got, err := c.Commit(t.Context(), 0, "x", false, nil)
	if err != nil || !got.Made {
		t.Fatalf("commit: %+v, %v", got, err)
	}
	if _, err := c.Push(t.Context(), 0, "aloft/first", false, nil); err != nil {
		t.Errorf("push: %v", err)
	}
	if tip := f.git("-C", f.repo("empty"), "rev-parse", "aloft/first"); tip != got.Commit {
		t.Errorf("the forge has %s, not %s", tip, got.Commit)
	}
}

func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{})
	m.shell(c).run("seq 1000000 > long")
	diff, truncated, err := c.Diff(t.Context(), 0, "")
	if err != nil || !truncated || len(diff) > 4<<20 || len(diff) < 4<<20-100 || !strings.HasSuffix(diff, "\n") {
		t.Errorf("diff of %d bytes, truncated %t, %v", len(diff), truncated, err)
	}
	if _, _, err := c.Diff(t.Context(), 0, "--output=/tmp/x"); err == nil {
		t.Error("an option was taken for a commit")
	}
}

// TestControlConnections checks the choice between two connected servers: git
// uses the newest connection, then the other one if the newest has ended, and
// waits if there is none.
func TestControlConnections(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	counted := func(n *[]string, name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*n = append(*n, name) // git sends one request at a time
			f.ServeHTTP(w, r)
		})
	}
	var asked []string
	old := m.dial(counted(&asked, "old"))
	m.mustBoot(old, pod.Checkout{Branch: "b"})
	newest := m.dial(counted(&asked, "new"))
	asked = nil
	sh := m.shell(old)
	sh.run("git ls-remote origin")
	if len(asked) == 0 || asked[0] != "new" {
		t.Errorf("git asked %v, want the newest", asked)
	}
	if err := newest.Close(); err != nil {
		t.Fatal(err)
	}
	asked = nil
	if out := sh.run("git ls-remote origin main"); !strings.Contains(out, f.tip("main")) || len(asked) == 0 {
		t.Errorf("git asked %v and heard %q", asked, out)
	}

	sh.run("echo x > x; git add x; git commit -q -m x; (setsid sh -c 'touch begun; git push -q origin b >out 2>&1; echo $? >status' >/dev/null 2>&1 &)")
	until(t, "the push has begun", func() error { return stat(m.workspace(), "begun") })
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	c := m.dial(f)
	until(t, "the push is over", func() error { return stat(m.workspace(), "status") })
	if out := m.shell(c).run("cat status out"); out != "0" && !strings.Contains(out, "hung up") && !strings.Contains(out, "Empty reply") {
		t.Errorf("push over a restart of the server: %q", out)
	}
}

func stat(elem ...string) error {
	_, err := os.Stat(filepath.Join(elem...))
	return err
}
