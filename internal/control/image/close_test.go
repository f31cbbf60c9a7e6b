package image

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCloseUnlocksLayers checks that a closed store holds no lock on a layer, so that
// another store can remove the layer, and leaves no file descriptor open.
func TestCloseUnlocksLayers(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(source, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := s.Generated(t.Context(), map[string]string{"/f": source})
	if err != nil {
		t.Fatal(err)
	}
	lock := func() error {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), f.Close())
	}
	if err := lock(); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("an open store does not hold its layer: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lock(); err != nil {
		t.Fatalf("the layer is still locked: %v", err)
	}
}
