package lockfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestMain makes the test binary a holder if the variable HOLD names a file.
// The holder locks the file, prints a line, and executes the commands on its
// standard input.
func TestMain(m *testing.M) {
	path := os.Getenv("HOLD")
	if path == "" {
		os.Exit(m.Run())
	}
	how := Exclusive
	if os.Getenv("HOLD_SHARED") != "" {
		how = func(f *os.File, _ time.Duration) error { return Shared(f) }
	}
	f, err := os.Open(path)
	if err == nil {
		err = how(f, 0)
	}
	fmt.Println("held", err)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println("removed", os.Remove(path))
	}
}

// A holder is another process that holds the lock on a file.
type holder struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func hold(t *testing.T, path string, env ...string) *holder {
	t.Helper()
	h := &holder{cmd: exec.Command(os.Args[0])}
	h.cmd.Env = append(append(os.Environ(), "HOLD="+path), env...)
	h.cmd.Stderr = os.Stderr
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.out = bufio.NewReader(out)
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.kill)
	h.says(t, "held <nil>\n")
	return h
}

func (h *holder) says(t *testing.T, want string) {
	t.Helper()
	if line, err := h.out.ReadString('\n'); line != want || err != nil {
		t.Fatalf("the holder says %q, %v; want %q", line, err, want)
	}
}

// remove makes the holder remove the file. The holder keeps its lock on it.
func (h *holder) remove(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(h.in, "\n"); err != nil {
		t.Fatal(err)
	}
	h.says(t, "removed <nil>\n")
}

// kill kills the holder, which cannot unlock the file itself.
func (h *holder) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := create(t, path)
	h := hold(t, path)
	for _, patience := range []time.Duration{0, 20 * time.Millisecond} {
		if err := Exclusive(f, patience); !errors.Is(err, ErrHeld) {
			t.Errorf("a held lock, patience %v: %v", patience, err)
		}
	}
	locked := make(chan error, 1)
	go func() { locked <- Exclusive(f, 2*time.Minute) }()
	h.kill()
	if err := <-locked; err != nil {
		t.Errorf("after the holder was killed: %v", err)
	}
	_ = f.Close()
	if err := Exclusive(f, time.Minute); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("a closed file: %v", err)
	}
}

// TestWait ends one wait with its context, and another with the holder's death.
func TestWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := create(t, path)
	h := hold(t, path)
	gone := errors.New("gone")
	for name, wait := range map[string]func(context.Context, *os.File) error{"Wait": Wait, "WaitShared": WaitShared} {
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 1)
		go func() { result <- wait(ctx, f) }()
		cancel(gone)
		if err := <-result; !errors.Is(err, gone) {
			t.Errorf("%s after its context: %v", name, err)
		}
	}
	for name, wait := range map[string]func(context.Context, *os.File) error{
		"Wait": Wait, "WaitShared": WaitShared, "Block": func(_ context.Context, f *os.File) error { return Block(f) },
	} {
		waiter := create(t, path)
		result := make(chan error, 1)
		go func() { result <- wait(t.Context(), waiter) }()
		h.kill()
		if err := <-result; err != nil {
			t.Errorf("%s after the holder was killed: %v", name, err)
		}
		_ = waiter.Close()
		h = hold(t, path)
	}
}

func TestShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := create(t, path)
	h := hold(t, path)
	if err := Shared(f); !errors.Is(err, ErrHeld) {
		t.Errorf("shared beside exclusive: %v", err)
	}
	h.kill()
	hold(t, path, "HOLD_SHARED=1")
	if err := Shared(f); err != nil {
		t.Errorf("shared beside shared: %v", err)
	}
	if err := Exclusive(create(t, path), 0); !errors.Is(err, ErrHeld) {
		t.Errorf("exclusive beside shared: %v", err)
	}
}

// TestUnlock unlocks a file whose descriptor a child has inherited.
func TestUnlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, next := create(t, path), create(t, path)
	if err := Exclusive(f, 0); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat")
	child.ExtraFiles = []*os.File{f}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(in.Close(), child.Wait()) }()
	if err := Unlock(f); err != nil {
		t.Fatal(err)
	}
	if err := Exclusive(next, 0); err != nil {
		t.Errorf("after Unlock: %v", err)
	}
}

// TestCreate waits for a holder that removes the file before it ends. The
// waiter must then lock the new file, where the next process looks for the
// lock.
func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	create(t, path)
	h := hold(t, path)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Create(canceled, path); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result, 1)
	// The waiter must have opened the first file before the holder removes it.
	opened := openFiles(t, path)
	go func() {
		f, err := Create(t.Context(), path)
		done <- result{f, err}
	}()
	for openFiles(t, path) == opened {
		runtime.Gosched()
	}
	h.remove(t)
	h.kill()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer r.f.Close()
	if !IsAt(r.f, path) {
		t.Fatal("the locked file is not at its path")
	}
	if _, err := Open(path); !errors.Is(err, ErrHeld) {
		t.Errorf("the next process: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", path); err != nil {
		t.Fatal(err)
	}
	if f, err := Create(t.Context(), path); err == nil {
		_ = f.Close()
		t.Error("a link was followed")
	}
}

// openFiles counts this process's open file descriptors of a file.
func openFiles(t *testing.T, path string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range all {
		if target, _ := os.Readlink(fd); target == path {
			n++
		}
	}
	return n
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	h := hold(t, dir)
	if _, err := Open(dir); !errors.Is(err, ErrHeld) {
		t.Errorf("a held folder: %v", err)
	}
	h.kill()
	f, err := Open(dir)
	if err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	defer f.Close()
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if IsAt(f, dir) {
		t.Error("a moved folder is still at its path")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if IsAt(f, dir) {
		t.Error("another folder at the path passes for the open one")
	}
}
