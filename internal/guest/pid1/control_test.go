package pid1

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSocketsOfTheServerAreRoots(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	for range 2 { // the second time replaces the socket of a killed daemon
		l, err := listenSocket(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for at, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
			info, err := os.Stat(at)
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v; want %v", at, info.Mode().Perm(), err, want)
			}
		}
	}
}
