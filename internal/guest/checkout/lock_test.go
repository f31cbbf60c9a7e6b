package checkout

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// here runs commands as this process' own.
func here(ctx context.Context, c Command) (int, error) {
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, append(os.Environ(), c.Env...), strings.NewReader(c.Stdin), c.Stdout, c.Stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// TestLocksAreWaitedForOrRemoved: what a killed git leaves behind keeps nothing
// from being committed, and what a git at work holds is let be.
func TestLocksAreWaitedForOrRemoved(t *testing.T) {
	r := &Repository{Path: t.TempDir(), Run: here}
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
		if done, err := r.Commit(t.Context(), "with "+lock); err != nil || !done.Made {
			t.Errorf("%s: %+v, %v", lock, done, err)
		}
	}

	worker := exec.CommandContext(t.Context(), "git", "cat-file", "--batch") // until its input ends
	worker.Dir = r.Path
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
	if _, err := out.Read(make([]byte, 1)); err != nil { // it is git by now, and no copy of this process
		t.Fatal(err)
	}
	write("file", "again")
	write(".git/index.lock", "")
	tries := 0
	ctx, stop := context.WithCancel(t.Context())
	err = r.unlocked(ctx, func() error {
		if tries++; tries == 3*lockIdle {
			stop()
		}
		_, err := r.git(context.WithoutCancel(ctx), localLimit, "add", "--all")
		return err
	})
	if _, there := os.Stat(filepath.Join(r.Path, ".git/index.lock")); lockOf(err) == "" || there != nil {
		t.Errorf("while a git works: %v, and the lock: %v", err, there)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := worker.Wait(); err != nil {
		t.Fatal(err)
	}
	if done, err := r.Commit(t.Context(), "after it"); err != nil || !done.Made {
		t.Errorf("when it has ended: %+v, %v", done, err)
	}
}
