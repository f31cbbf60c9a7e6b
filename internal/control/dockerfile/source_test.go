package dockerfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/need"
)

// stranger is the id of a user and of a group that own no files.
const stranger = 23456

// TestSourceIsReadAsItsUser checks that a copy made by root contains only files that
// the user can read.
func TestSourceIsReadAsItsUser(t *testing.T) {
	need.Root(t)
	for name, c := range map[string]struct {
		spoil func(dir string) error
		fails bool
	}{
		"Own":          {func(string) error { return nil }, false},
		"FolderOfRoot": {func(dir string) error { return os.Chown(dir, 0, 0) }, true},
		"Subfolder":    {func(dir string) error { return os.Chown(filepath.Join(dir, "sub"), 0, 0) }, true},
		"File":         {func(dir string) error { return os.Chown(filepath.Join(dir, "sub/file"), 0, 0) }, true},
		"FileOfGroup": {func(dir string) error {
			path := filepath.Join(dir, "sub/file")
			return errors.Join(os.Chown(path, 0, 0), os.Chmod(path, 0o640))
		}, true},
		"Link": {func(dir string) error { return os.Symlink("/etc/shadow", filepath.Join(dir, "link")) }, false},
		"Pipe": {func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "pipe"), 0o666) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "sub/file"), []byte("text"), 0o700); err != nil { //nolint:gosec // the mode is copied
				t.Fatal(err)
			}
			for _, path := range []string{".", "sub", "sub/file"} {
				if err := os.Chown(filepath.Join(dir, path), stranger, stranger); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.spoil(dir); err != nil {
				t.Fatal(err)
			}
			folder, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer folder.Close()
			to := filepath.Join(t.TempDir(), "to")
			err = Source{folder, stranger, stranger}.Copy(t.Context(), to)
			if c.fails {
				if !errors.Is(err, fs.ErrPermission) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(to, "sub/file"))
			if err != nil || string(text) != "text" {
				t.Errorf("copied %q, %v", text, err)
			}
			if info, err := os.Stat(filepath.Join(to, "sub/file")); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the mode is %v, %v", info.Mode(), err)
			}
			if target, err := os.Readlink(filepath.Join(to, "link")); name == "Link" && target != "/etc/shadow" {
				t.Errorf("the link leads to %q, %v", target, err)
			}
			if _, err := os.Lstat(filepath.Join(to, "pipe")); err == nil {
				t.Error("copied a pipe")
			}
		})
	}
}
