package image

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCloseUnlocksLayers checks that a closed store holds no layer, so that another one
// can remove it, and no descriptor stays.
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
	if fd, err := lockDir(dir); err == nil {
		_ = unix.Close(fd)
		t.Error("an open store does not hold its layer")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fd, err := lockDir(dir)
	if err != nil {
		t.Fatalf("the layer is still locked: %v", err)
	}
	_ = unix.Close(fd)
}
