package mirror

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"aloft/internal/control/confine"
	"aloft/internal/need"
)

// TestTidyFollowsNoLink checks that tidy changes nothing outside of a mirror in
// which one of the server's folders has become a link.
func TestTidyFollowsNoLink(t *testing.T) {
	need.Root(t)
	dir, outside := t.TempDir(), t.TempDir()
	before, err := os.Stat(outside)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "objects")); err != nil {
		t.Fatal(err)
	}
	m := &Mirror{all: &Mirrors{host: &confine.Host{}}, user: confine.FirstUser}
	_ = m.tidy(dir) // it may refuse
	after, err := os.Stat(outside)
	if err != nil {
		t.Fatal(err)
	}
	if st := after.Sys().(*syscall.Stat_t); st.Gid == confine.FirstUser || after.Mode() != before.Mode() {
		t.Errorf("the folder outside has group %d and mode %v", st.Gid, after.Mode())
	}
}
