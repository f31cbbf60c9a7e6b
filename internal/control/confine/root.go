package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// newRoot is where the new root file system is mounted until it becomes the
// root. No path that a jail names is below it.
const newRoot = "/proc"

// rootSize limits the new root file system, which contains only mount points.
const rootSize = "size=256k,mode=0755"

// system lists what every program sees: programs, libraries, certificates and
// the configuration of host name lookups.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
	"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/alternatives", "/etc/ld.so.cache",
	"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/localtime",
}

// devices are the only device files.
var devices = []string{"/dev/null", "/dev/zero", "/dev/urandom"}

// Shows reports whether a path is visible to every confined program.
func Shows(path string) bool {
	for _, p := range system {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

// enterRoot replaces the root file system of the calling thread, which must be
// in a mount namespace of its own.
func (j Jail) enterRoot(mounts map[string]int) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, rootSize); err != nil {
		return &os.PathError{Op: "mount", Path: newRoot, Err: err}
	}
	root, err := unix.Open(newRoot, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: newRoot, Err: err}
	}
	defer func() { _ = unix.Close(root) }() // nothing was written through it
	const plain = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	for _, group := range []struct {
		paths    []string
		attr     uint64
		optional bool
		host     bool
	}{
		{system, plain | unix.MOUNT_ATTR_RDONLY, true, true},
		{devices, unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_RDONLY, false, true}, // the modes are read-only, not the devices' data
		{j.Execute, plain | unix.MOUNT_ATTR_RDONLY, false, false},
		{j.Read, plain | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC, false, false},
		{j.Write, plain | unix.MOUNT_ATTR_NOEXEC, false, false},
	} {
		if j.Bare && group.host {
			continue
		}
		for _, path := range group.paths {
			if err := show(root, path, group.attr, mounts); err != nil && !(group.optional && errors.Is(err, fs.ErrNotExist)) {
				return err
			}
		}
	}
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	// The old root ends up on top of the new one, and is then removed.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root file system: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("remove the old root file system: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return &os.PathError{Op: "mount_setattr", Path: "/", Err: err}
	}
	return nil
}

// openMounts returns a detached mount for each of Files, keyed by path.
func (j Jail) openMounts() (map[string]int, error) {
	mounts := map[string]int{}
	for path, f := range j.Files {
		fd, err := unix.OpenTree(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return mounts, &os.PathError{Op: "open_tree", Path: path, Err: err}
		}
		mounts[path] = fd
	}
	return mounts, nil
}

func closeMounts(mounts map[string]int) {
	for _, fd := range mounts {
		_ = unix.Close(fd) // nothing was written through it
	}
}

// show makes a file or folder of the host visible at its own path in the new
// root. If mounts has the path, show attaches that mount. A link in the top
// folder, such as /bin, stays a link; other links are followed.
func show(root int, path string, attr uint64, mounts map[string]int) error {
	mount, ok := mounts[path]
	if !ok {
		if to, err := os.Readlink(path); err == nil && filepath.Dir(path) == "/" && strings.HasPrefix(strings.TrimPrefix(to, "/"), "usr/") {
			return os.Symlink(to, filepath.Join(newRoot, path))
		}
		var err error
		if mount, err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE); err != nil {
			return &os.PathError{Op: "open_tree", Path: path, Err: err}
		}
		defer func() { _ = unix.Close(mount) }() // nothing was written through it
	}
	var st unix.Stat_t
	if err := unix.Fstat(mount, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr}); err != nil {
		return &os.PathError{Op: "mount_setattr", Path: path, Err: err}
	}
	point, err := openPoint(root, path, st.Mode&unix.S_IFMT == unix.S_IFDIR)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(point) }() // nothing was written through it
	if err := unix.MoveMount(mount, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move_mount", Path: path, Err: err}
	}
	return nil
}

// openPoint opens the mount point for a path in the new root, and creates it if
// necessary. The path may be in a folder that is already visible, and whose
// hostile owner changes it meanwhile. So openPoint follows no link out of the
// new root, and creates files only on the new root's own file system.
func openPoint(root int, path string, folder bool) (int, error) {
	rel := strings.TrimPrefix(filepath.Clean(path), "/")
	if rel == "" {
		rel = "."
	}
	open := func(dir int, name string, resolve uint64) (int, error) {
		return unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve | unix.RESOLVE_NO_MAGICLINKS})
	}
	point, err := open(root, rel, unix.RESOLVE_IN_ROOT)
	if !errors.Is(err, unix.ENOENT) {
		if err != nil {
			err = &os.PathError{Op: "open", Path: path, Err: err}
		}
		return point, err
	}
	at, err := open(root, ".", 0)
	parts := strings.Split(rel, "/")
	for i, name := range parts {
		if err != nil {
			break
		}
		next, errOpen := open(at, name, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
		if errors.Is(errOpen, unix.ENOENT) {
			if errOpen = makeEntry(root, at, name, folder || i < len(parts)-1); errOpen == nil {
				next, errOpen = open(at, name, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
			}
		}
		_ = unix.Close(at) // nothing was written through it
		at, err = next, errOpen
	}
	if err != nil {
		return -1, &os.PathError{Op: "make a mount point", Path: path, Err: err}
	}
	return at, nil
}

// makeEntry creates a folder or a file in a folder of the new root's own file
// system.
func makeEntry(root, dir int, name string, folder bool) error {
	var own, st unix.Stat_t
	if err := errors.Join(unix.Fstat(root, &own), unix.Fstat(dir, &st)); err != nil {
		return err
	}
	if st.Dev != own.Dev {
		return unix.ENOENT
	}
	if folder {
		return unix.Mkdirat(dir, name, 0o755)
	}
	// Create the file without opening it. Otherwise a process that another
	// goroutine forks meanwhile could keep it open for writing, and the root
	// could not be made read-only.
	return unix.Mknodat(dir, name, unix.S_IFREG|0o644, 0)
}
