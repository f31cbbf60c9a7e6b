package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMountPointsThroughLinks checks that no mount point is created outside of the new
// root, even if a visible folder becomes a link after its file descriptor was opened.
func TestMountPointsThroughLinks(t *testing.T) {
	h := host(t)
	for _, folder := range []bool{false, true} {
		dir, outside := t.TempDir(), t.TempDir()
		path := filepath.Join(dir, "link", "new")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if folder {
			err = os.Mkdir(path, 0o700)
		} else {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		top, err := os.OpenFile(dir, unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer top.Close()
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		for _, writable := range [][]string{{dir}, {dir, outside}} {
			cmd := exec.CommandContext(t.Context(), "/bin/true")
			cmd.Dir = "/"
			release, err := h.Start(cmd, Jail{User: FirstUser + 7, Write: append(writable, path), Files: map[string]*os.File{path: f, dir: top}})
			if err == nil {
				_ = cmd.Wait() // the exit status does not matter
				release()
				t.Error("it started")
			}
			entries, err := os.ReadDir(outside)
			if err != nil || len(entries) > 0 {
				t.Errorf("outside there is %v, %v", entries, err)
			}
		}
	}
}
