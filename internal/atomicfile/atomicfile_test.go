package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"aloft/internal/need"
)

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// names returns the names of the entries in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWrite(t *testing.T) {
	for name, write := range map[string]func(string, []byte, fs.FileMode) error{"Write": Write, "WriteUnsynced": WriteUnsynced} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			for _, text := range []string{"first", "second, longer", ""} {
				if err := write(path, []byte(text), 0o604); err != nil {
					t.Fatal(err)
				}
				if got := contents(t, path); got != text {
					t.Errorf("got %q, want %q", got, text)
				}
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o604 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			if got := names(t, dir); len(got) != 1 {
				t.Errorf("left %q", got)
			}
		})
	}
}

func TestErrorLeavesTheOldFile(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		need.Missing(t, "mount", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	path := filepath.Join(dir, "f")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want no space", err)
	}
	if got := contents(t, path); got != "old" {
		t.Errorf("the old file holds %q", got)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left %q", got)
	}
}

func TestClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := Create(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if !Unfinished(filepath.Base(f.Name())) || Unfinished(".f") || Unfinished("f") {
		t.Errorf("%s is not told from a finished file", f.Name())
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Commit(); err == nil {
		t.Error("committed a version that was dropped")
	}
	if got := names(t, filepath.Dir(path)); len(got) != 0 {
		t.Errorf("left %q", got)
	}
}

// Readers and writers run concurrently. Every read must return the complete
// contents of one write.
func TestConcurrentWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := WriteUnsynced(path, bytes.Repeat([]byte{'a'}, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for range 50 {
				if err := WriteUnsynced(path, bytes.Repeat([]byte{byte('a' + i)}, 1<<16), 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) != 1<<16 || bytes.Count(data, data[:1]) != len(data) {
			t.Fatalf("read %d bytes, %v", len(data), err)
		}
	}
}

// TestMain also lets the test binary act as the program that strace watches.
func TestMain(m *testing.M) {
	if path := os.Getenv("ATOMICFILE_TEST_WRITE"); path != "" {
		if err := Write(path, []byte("x"), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The file must be synced before the rename, and the folder after it. A test
// cannot cause a power failure, so it checks the system calls.
func TestOrderOfSyncs(t *testing.T) {
	strace := need.Command(t, "strace")
	path := filepath.Join(t.TempDir(), "f")
	cmd := exec.Command(strace, "-f", "-y", "-e", "trace=fsync,rename,renameat,renameat2", "-o", path+".trace", os.Args[0])
	cmd.Env = append(os.Environ(), "ATOMICFILE_TEST_WRITE="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	rest := contents(t, path+".trace")
	for _, want := range []string{"fsync(", "/.f.", "rename", filepath.Base(path) + `"`, "fsync(", filepath.Dir(path) + ">)"} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q, or out of order, in:\n%s", want, contents(t, path+".trace"))
		}
		rest = after
	}
}
