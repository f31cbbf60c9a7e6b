// Package owner changes the owners of a mirror's files. Git runs on a mirror as
// a separate user (package confine), who may be hostile. So the server's files
// in a mirror belong to the server's user, and so do the folders in which the
// server renames and removes files. Only root can change owners, so the
// functions run in a process of root, which need not be the server.
//
// The functions follow no links, and change only files of the server and of
// confined users.
package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/control/confine"
)

// ClaimsFolder is the folder of a mirror with the server's records of pushes.
const ClaimsFolder = "claims"

// shared is the mode of a folder of the server in which confined git creates
// files. The folder's group has only one member, the mirror's user.
const shared = os.ModeSticky | 0o770

// The files of a mirror that only the server writes, and the folders in which
// it renames and removes files.
var (
	ownFiles   = []string{"HEAD", "config", "description"}
	ownFolders = []string{".", "objects", "objects/pack"}
)

// Server is the user id of the server.
type Server int

// check returns an error unless the folder belongs to the server.
func (s Server) check(root *os.Root) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != int(s) {
		return fmt.Errorf("%s is not a folder of user %d", root.Name(), s)
	}
	return nil
}

// change changes the owner of a file below root, and its mode unless mode is 0.
// It returns an error, and changes nothing, for a file whose owner is neither
// the server nor a confined user. It checks the opened file that it changes, so
// a concurrent change of the path has no effect.
func (s Server) change(root *os.Root, path string, uid, gid int, mode fs.FileMode) error {
	f, err := root.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written through it
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if int(st.Uid) != int(s) && !confine.IsUser(int(st.Uid)) {
		return fmt.Errorf("%s belongs to user %d", path, st.Uid)
	}
	if int(st.Uid) != uid || int(st.Gid) != gid {
		if err := unix.Fchownat(int(f.Fd()), "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	if mode == 0 || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), mode)
}

// Share lets a user's programs create files in a folder that still belongs to
// the server.
func (s Server) Share(root *os.Root, user int) error {
	if err := s.check(root); err != nil {
		return err
	}
	return errors.Join(root.Lchown(".", int(s), user), root.Chmod(".", shared))
}

// Tidy removes stale locks of killed git processes from a mirror. Unless user
// is 0, it also corrects the owners of the mirror's files, because an older
// server, or a server that could not confine git, created them as its own user.
// It can be interrupted and repeated.
func (s Server) Tidy(root *os.Root, user int) error {
	if err := s.check(root); err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case path == ClaimsFolder:
			return fs.SkipDir
		case !d.IsDir() && (strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "tmp_") || name == "gc.pid"):
			return root.Remove(path)
		case user == 0:
			// Skip the many folders of loose objects, which have no locks.
			if d.IsDir() && len(name) == 2 && filepath.Dir(path) == "objects" {
				return fs.SkipDir
			}
			return nil
		case slices.Contains(ownFiles, path):
			return s.change(root, path, int(s), int(s), 0o644)
		case slices.Contains(ownFolders, path):
			return s.change(root, path, int(s), user, shared)
		}
		return s.change(root, path, user, user, 0)
	})
}

// TakeBack makes the server the owner of a folder and all that confined git has
// written in it.
func (s Server) TakeBack(root *os.Root) error {
	if err := s.check(root); err != nil {
		return err
	}
	err := fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return s.change(root, path, int(s), int(s), 0)
	})
	return errors.Join(err, root.Chmod(".", 0o700))
}

// Empty removes everything in a folder of the server.
func (s Server) Empty(root *os.Root) error {
	if err := s.check(root); err != nil {
		return err
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		err = errors.Join(err, root.RemoveAll(e.Name()))
	}
	return err
}
