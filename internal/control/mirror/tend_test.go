package mirror

import (
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/repourl"
)

// TestRepack checks that many packs become one pack with a bitmap, and that
// refs are unchanged.
func TestRepack(t *testing.T) {
	forge := gittest.New(t)
	url := forge.Repo("r", map[string]string{"a": "a"})
	s, err := Open(Config{Dir: t.TempDir(), Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := repourl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Mirror(r)
	if err != nil {
		t.Fatal(err)
	}
	var before Snapshot
	for _, text := range []string{"b", "c", "d"} {
		forge.Commit("r", "main", text, map[string]string{"a": text})
		if before, err = m.Refresh(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if m.untidy() {
		t.Error("three small packs are untidy")
	}
	count := func(pattern string) int {
		found, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", pattern))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if n := count("*.pack"); n != 3 {
		t.Errorf("%d packs after three refreshes", n)
	}
	if err := m.repack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, b := count("*.pack"), count("*.bitmap"); p != 1 || b != 1 {
		t.Errorf("%d packs, %d bitmaps", p, b)
	}
	after, err := m.Refresh(t.Context(), r)
	if err != nil || after.ID("refs/heads/main") != before.ID("refs/heads/main") || len(after.Refs) != len(before.Refs) {
		t.Errorf("refs after: %v, %v; before: %v", after, err, before)
	}
}
