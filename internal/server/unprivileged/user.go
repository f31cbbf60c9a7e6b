// Package unprivileged runs the server as an ordinary user: it gives that user the
// server's part of the data folder, and starts the server's process.
package unprivileged

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/confine"
	"aloft/internal/fault"
	"aloft/internal/lockfile"
)

// UserName is the user that the server runs as if it exists. Packages create it.
const UserName = "aloft"

// nameless is the id of the server's user if no user has that name. It follows
// the ids of confined programs, and neither distributions nor systemd assign
// it.
const nameless = confine.FirstUser + confine.Users

// User is the user that the server runs as.
type User struct {
	ID, Group int
	Groups    []int // supplementary
}

// FindUser returns the user with the name; "" means [UserName] if it exists, or
// else a user without a name.
func FindUser(name string) (User, error) {
	given := name != ""
	if !given {
		name = UserName
	}
	u, err := user.Lookup(name)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		if !given {
			return User{ID: nameless, Group: nameless}, nil
		}
		return User{}, fault.NotFound("there is no user %s on this host", name).Named("no_user").
			Hint("create it (useradd --system %s), or name another one with --user", name)
	}
	if err != nil {
		return User{}, fmt.Errorf("user %s: %w", name, err)
	}
	var found User
	if found.ID, err = strconv.Atoi(u.Uid); err != nil {
		return User{}, err
	}
	if found.Group, err = strconv.Atoi(u.Gid); err != nil {
		return User{}, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return User{}, fmt.Errorf("groups of user %s: %w", name, err)
	}
	for _, g := range groups {
		id, err := strconv.Atoi(g)
		if err != nil {
			return User{}, err
		}
		found.Groups = append(found.Groups, id)
	}
	return found, nil
}

// rootsOwn lists the entries of the data folder that only root uses: the files
// of the host-daemon.
var rootsOwn = []string{"machines", "bin", "build", "connections"}

// GiveData gives the user the server's part of a data folder, and creates the
// folder if necessary. The folder itself belongs to root and is sticky, so that
// the user cannot replace root's entries in it.
func GiveData(data string, u User) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	for _, name := range rootsOwn { // before the user can create an entry with that name
		if err := os.MkdirAll(filepath.Join(data, name), 0o700); err != nil {
			return err
		}
		info, err := os.Lstat(filepath.Join(data, name))
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || st.Uid != 0 {
			return fmt.Errorf("%s is not a folder of root: move it away", filepath.Join(data, name))
		}
	}
	root, err := os.OpenRoot(data)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // closes only a descriptor
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(rootsOwn, e.Name()) {
			continue
		}
		if err := give(root, e.Name(), u); err != nil {
			return err
		}
	}
	if u.ID == 0 {
		return errors.Join(root.Lchown(".", 0, 0), root.Chmod(".", 0o700))
	}
	return errors.Join(root.Lchown(".", 0, u.Group), root.Chmod(".", os.ModeSticky|0o770))
}

// handedOnWithin is how long to wait for the processes of a killed server to end.
const handedOnWithin = 10 * time.Second

// Lock locks the data folder for the processes that inherit the returned file.
// A server that starts right after another was killed waits until all processes
// of the killed server have ended. Lock calls waiting if it has to wait. Call
// [GiveData] on the folder first.
func Lock(data string, waiting func()) (*os.File, error) {
	f, err := os.Open(filepath.Join(data, rootsOwn[0]))
	if err != nil {
		return nil, err
	}
	if err = lockfile.Exclusive(f, 0); errors.Is(err, lockfile.ErrHeld) {
		waiting()
		err = lockfile.Exclusive(f, handedOnWithin)
	}
	if errors.Is(err, lockfile.ErrHeld) {
		err = fault.Conflict("another server is using %s", data).Named("data_in_use").Hint("stop it, or give this server its own data folder")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// give makes the user the owner of an entry of the data folder, and of all
// files in it that have the same owner as the entry. Files of confined programs
// keep their owner. It can be interrupted and repeated, since it changes the
// entry last.
func give(root *os.Root, name string, u User) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == u.ID {
		return nil
	}
	before := st.Uid
	if info.IsDir() {
		err := fs.WalkDir(root.FS(), name, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || path == name {
				return err
			}
			info, err := root.Lstat(path)
			if err != nil {
				return err
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == before {
				group := u.Group
				if confine.IsUser(int(st.Gid)) {
					group = int(st.Gid) // a folder that a confined program shares
				}
				return root.Lchown(path, u.ID, group)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return root.Lchown(name, u.ID, u.Group)
}

// reaches reports whether the user can enter every folder on the way to a file.
func (u User) reaches(folder string) (bool, error) {
	info, err := os.Stat(folder)
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, nil
	}
	mode := info.Mode().Perm()
	switch {
	case int(st.Uid) == u.ID:
		return mode&unix.S_IXUSR != 0, nil
	case int(st.Gid) == u.Group || slices.Contains(u.Groups, int(st.Gid)):
		return mode&unix.S_IXGRP != 0, nil
	}
	return mode&unix.S_IXOTH != 0, nil
}
