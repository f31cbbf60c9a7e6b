package egress

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestLogs checks that each log has its own folder, and that no name leads to
// another folder.
func TestLogs(t *testing.T) {
	l := Logs(filepath.Join(t.TempDir(), "connections"))
	if names, err := l.List(t.Context()); err != nil || len(names) != 0 {
		t.Fatalf("a missing folder has %v, %v", names, err)
	}
	for _, name := range []string{"a", "b"} {
		dir, err := l.Make(name)
		if err != nil {
			t.Fatal(err)
		}
		log, err := OpenLog(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := l.List(t.Context()); err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("got %v, %v", names, err)
	}
	if err := l.Remove(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", ".", "..", "../b", "/b", "x/../b"} {
		if _, err := l.Make(name); err == nil {
			t.Errorf("made %q", name)
		}
		if err := l.Remove(t.Context(), name); err == nil {
			t.Errorf("removed %q", name)
		}
		if _, err := l.Read(t.Context(), name); err == nil {
			t.Errorf("read %q", name)
		}
	}
	if names, err := l.List(t.Context()); err != nil || !slices.Equal(names, []string{"b"}) {
		t.Errorf("after all that there are %v, %v", names, err)
	}
}
