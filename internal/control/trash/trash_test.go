package trash

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// nest creates n nested folders in dir, with a file in the innermost.
func nest(t *testing.T, dir string, n int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := unix.Mkdirat(at, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(at)
		at = next
	}
	f, err := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(f)
	_ = unix.Close(at)
}

// A machine nests folders deeper than the limit on file descriptors and the
// maximum path length. They must be removed, and so must the other entries,
// with few file descriptors.
func TestDeepFolders(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	// Apart from these, the test process has fewer than 100 file descriptors.
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
	dir, from := t.TempDir(), t.TempDir()
	nest(t, from, 5000)
	outside := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 { // more entries than one read returns
		if err := os.Symlink(outside, filepath.Join(from, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(from, "d/d/out")); err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(t.TempDir(), "second")
	if err := os.MkdirAll(second+"/a/b", 0o700); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	nest(t, other, 5000)
	if err := RemoveAll(other); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(other); err == nil {
		t.Error("the folder is left")
	}
	if err := RemoveAll(other); err != nil {
		t.Errorf("a missing folder: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(outside), link); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(link); err != nil {
		t.Error(err)
	}
	c := Open(dir, slog.New(slog.DiscardHandler))
	for _, path := range []string{from, second} {
		if err := c.Discard(path, "x"); err != nil {
			t.Fatal(err)
		}
	}
	c.Wait()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%d entries are left: %v", len(entries), err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}
