package lockfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	first, second := open(), open()
	if err := Exclusive(first, 0); err != nil {
		t.Fatal(err)
	}
	if err := Exclusive(second, 20*time.Millisecond); !errors.Is(err, ErrHeld) {
		t.Errorf("a lock that is held: %v", err)
	}
	locked := make(chan error, 1)
	go func() { locked <- Exclusive(second, 2*time.Minute) }()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Errorf("a lock that was let go: %v", err)
	}
	if err := Exclusive(first, time.Minute); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("a file that is closed: %v", err)
	}
}
