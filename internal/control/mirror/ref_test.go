package mirror

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/repourl"
)

// TestLostMirror resolves a commit after the mirror's files were lost, as happens
// when a server is restored from a backup.
func TestLostMirror(t *testing.T) {
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	dir := t.TempDir()
	r, err := repourl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	var id string
	t.Run("Before", func(t *testing.T) { // the subtest closes the mirrors when it ends
		snap, err := openConfined(t, dir, "").prepared(t, url).Refresh(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if id = snap.ID("refs/heads/" + snap.DefaultBranch); id == "" {
			t.Fatalf("no commit in %+v", snap)
		}
	})
	if err := os.RemoveAll(filepath.Join(dir, "mirrors")); err != nil {
		t.Fatal(err)
	}
	again, err := openConfined(t, dir, "").Mirror(r)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Resolve(t.Context(), r, id); err != nil || got.Commit != id {
		t.Errorf("resolved %+v, %v; want %s", got, err, id)
	}
}

func TestValidRef(t *testing.T) {
	for name, want := range map[string]bool{
		"refs/heads/main": true, "refs/heads/a/b-c.d": true, "refs/tags/v1": true, "refs/heads/ü": true, "refs/heads/-x": true,
		"main": false, "refs/heads": false, "refs/heads/": false, "refs//x": false, "refs/heads/a..b": false, "refs/heads/a b": false,
		"refs/heads/.a": false, "refs/heads/a.lock": false, "refs/heads/a.lock/b": false, "refs/heads/a.": false, "refs/heads/a@{b": false,
		"refs/heads/a~1": false, "refs/heads/a^": false, "refs/heads/a:b": false, "refs/heads/a?": false, "refs/heads/a*": false,
		"refs/heads/a[": false, `refs/heads/a\b`: false, "refs/heads/a\x7f": false, "refs/heads/a\n": false, "refs/heads/a/../b": false,
		"refs/heads/" + strings.Repeat("a", 300): false,
	} {
		if got := ValidRef(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	if ValidBranch("-x") || ValidBranch("HEAD") || !ValidBranch("aloft/x") {
		t.Error("branches")
	}
}
