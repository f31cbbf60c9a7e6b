package sqlite

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/control/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return openTest(t, t.TempDir()) })
}

func openTest(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(dir, "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestFileIsForItsOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "aloft.db"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	openTest(t, dir)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("files are %v, %v; want the database, its log, its index and the lock", files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o", f, got)
		}
	}
}

func TestServerIDStays(t *testing.T) {
	dir := t.TempDir()
	first := openTest(t, dir)
	id := first.ServerID()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if again := openTest(t, dir).ServerID(); id == "" || again != id {
		t.Errorf("the server was %q and is now %q", id, again)
	}
	if other := openTest(t, t.TempDir()).ServerID(); other == id {
		t.Error("another store has the same server")
	}
}

func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a b", "50%", "what?", "c#", "ünï", "a&b=c", "deep/er"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			openTest(t, dir)
			if _, err := os.Stat(filepath.Join(dir, "aloft.db-wal")); err != nil {
				t.Errorf("the database is elsewhere: %v", err)
			}
		})
	}
}
