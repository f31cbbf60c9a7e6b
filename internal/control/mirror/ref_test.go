package mirror

import (
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

// TestLostMirror resolves a commit after the files of the mirror were lost, as when a
// server was restored from a backup.
func TestLostMirror(t *testing.T) {
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	dir := t.TempDir()
	r, err := ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	var id string
	t.Run("Before", func(t *testing.T) { // so that the mirrors are closed at its end
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
