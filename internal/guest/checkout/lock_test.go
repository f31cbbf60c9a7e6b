package checkout

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// here runs commands as children of this process.
func here(ctx context.Context, c Command) (int, error) {
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	env := os.Environ()
	if c.Clean {
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, append(env, c.Env...), strings.NewReader(c.Stdin), c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// TestLocksAreWaitedForOrRemoved checks that lock files of a killed git are
// removed, and that a commit waits for those of a running git.
func TestLocksAreWaitedForOrRemoved(t *testing.T) {
	r := &Repository{Path: t.TempDir(), Run: here, Own: t.TempDir(), System: system(t)}
	for _, args := range [][]string{{"init", "--quiet"}, {"config", "user.email", "a@b.example"}, {"config", "user.name", "A"}, {"commit", "--quiet", "--allow-empty", "-m", "first"}} {
		if _, err := r.git(t.Context(), localLimit, args...); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.Path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, lock := range []string{".git/index.lock", ".git/HEAD.lock"} {
		write("file", strings.Repeat("x", i+1))
		write(lock, "")
		if done, err := r.Commit(t.Context(), "with "+lock, false); err != nil || !done.Made {
			t.Errorf("%s: %+v, %v", lock, done, err)
		}
	}

	end := work(t, r.Path, nil, "git", "cat-file", "--batch")
	write("file", "again")
	write(".git/index.lock", "")
	tries := 0
	ctx, stop := context.WithCancel(t.Context())
	err := r.unlocked(ctx, func() error {
		if tries++; tries == 3*lockIdle {
			stop()
		}
		_, err := r.git(context.WithoutCancel(ctx), localLimit, "add", "--all")
		return err
	})
	if _, there := os.Stat(filepath.Join(r.Path, ".git/index.lock")); lockOf(err) == "" || there != nil {
		t.Errorf("while a git works: %v, and the lock: %v", err, there)
	}
	end()
	if done, err := r.Commit(t.Context(), "after it", false); err != nil || !done.Made {
		t.Errorf("when it has ended: %+v, %v", done, err)
	}
}

// work starts a git command that runs until the returned function is called.
func work(t *testing.T, dir string, env []string, args ...string) (end func()) {
	t.Helper()
	worker := exec.CommandContext(t.Context(), args[0], args[1:]...) // the command runs until its input ends
	worker.Dir, worker.Env = dir, append(os.Environ(), env...)
	in, err := worker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "HEAD\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // the process is git by now, not a copy of this process
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, out)
		if err := worker.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBusy checks that a git that was started elsewhere counts if it works in
// the clone, and not if it works in another clone.
func TestBusy(t *testing.T) {
	root := t.TempDir()
	r := &Repository{Path: filepath.Join(root, "clone"), Run: here}
	lock := filepath.Join(r.Path, ".git/index.lock")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=A", "-c", "user.email=a@b.example", "-c", "protocol.file.allow=always"}, args...)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	for _, name := range []string{"clone", "clone-2", "part"} {
		git("init", "--quiet", name)
		git("-C", name, "commit", "--quiet", "--allow-empty", "-m", "first")
	}
	git("-C", "clone", "worktree", "add", "--quiet", "--detach", "../tree")
	git("-C", "clone", "submodule", "--quiet", "add", filepath.Join(root, "part"), "part")
	if err := os.Mkdir(filepath.Join(root, "tree/below"), 0o755); err != nil {
		t.Fatal(err)
	}
	batch := []string{"cat-file", "--batch"}
	for name, c := range map[string]struct {
		dir  string
		env  []string
		args []string
		want bool
	}{
		"Inside":         {dir: "clone", want: true},
		"AnotherFolder":  {dir: ".", args: []string{"-C", "clone"}, want: true},
		"GitDir":         {dir: ".", args: []string{"--git-dir=" + filepath.Join(r.Path, ".git")}, want: true},
		"GitDirApart":    {dir: ".", args: []string{"--git-dir", filepath.Join(r.Path, ".git")}, want: true},
		"Environment":    {dir: ".", env: []string{"GIT_DIR=" + filepath.Join(r.Path, ".git")}, want: true},
		"Worktree":       {dir: "tree", want: true},
		"BelowWorktree":  {dir: "tree/below", want: true},
		"Submodule":      {dir: "clone/part", want: true},
		"AnotherClone":   {dir: "clone-2"},
		"ThroughAnother": {dir: "clone-2", args: []string{"--git-dir=" + filepath.Join(root, "part/.git")}},
	} {
		t.Run(name, func(t *testing.T) {
			end := work(t, filepath.Join(root, c.dir), c.env, append(append([]string{"git"}, c.args...), batch...)...)
			if got := r.busy(lock); got != c.want {
				t.Errorf("busy: %v", got)
			}
			end()
			if r.busy(lock) {
				t.Error("busy though it has ended")
			}
		})
	}
	held, err := os.Create(lock) // the program that holds the file is not git
	if err != nil {
		t.Fatal(err)
	}
	if !r.busy(lock) {
		t.Error("somebody has the lock open")
	}
	if err := held.Close(); err != nil || r.busy(lock) {
		t.Errorf("busy though it is closed, %v", err)
	}
}

// TestLocksElsewhereStay checks that only lock files inside the clone are
// removed, whatever git prints.
func TestLocksElsewhereStay(t *testing.T) {
	r := &Repository{Path: t.TempDir(), Run: here}
	if _, err := r.git(t.Context(), localLimit, "init", "--quiet"); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(r.Path, ".git/way")); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{elsewhere + "/x.lock", r.Path + "/yarn.lock", r.Path + "/.git/way/y.lock", r.Path + "/.git/../z.lock", r.Path + "/.git/refs/heads/main.lock", r.Path + "/.git/index.lock"} {
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		tries := 0
		err := r.unlocked(t.Context(), func() error {
			if tries++; tries > lockIdle {
				return nil
			}
			return &Failure{Detail: "fatal: Unable to create '" + at + "': File exists."}
		})
		own := strings.HasSuffix(at, "main.lock") || strings.HasSuffix(at, "index.lock")
		_, there := os.Stat(at)
		if own != (err == nil) || own != errors.Is(there, os.ErrNotExist) {
			t.Errorf("%s: %v after %d tries, and it is there: %v", at, err, tries, there == nil)
		}
	}
	if r.owns(".git/index.lock") || r.owns(elsewhere+"/none.lock") {
		t.Error("a lock that is not there is the clone's own")
	}
}
