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

// rootSize limits the new root file system. It has only mount points.
const rootSize = "size=256k,mode=0755"

// system lists what every program sees: programs, libraries, certificates and
// how to look up host names.
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
	const plain = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	for _, group := range []struct {
		paths    []string
		attr     uint64
		optional bool
		host     bool
	}{
		{system, plain | unix.MOUNT_ATTR_RDONLY, true, true},
		{devices, unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC | unix.MOUNT_ATTR_RDONLY, false, true}, // read-only: their modes, not their data
		{j.Execute, plain | unix.MOUNT_ATTR_RDONLY, false, false},
		{j.Read, plain | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC, false, false},
		{j.Write, plain | unix.MOUNT_ATTR_NOEXEC, false, false},
	} {
		if j.Bare && group.host {
			continue
		}
		for _, path := range group.paths {
			if err := show(path, group.attr, mounts); err != nil && !(group.optional && errors.Is(err, fs.ErrNotExist)) {
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
	return setAttr("/", unix.MOUNT_ATTR_RDONLY, 0)
}

// openMounts returns a detached mount for each of Files, by its path.
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
		_ = unix.Close(fd) // only a descriptor
	}
}

// show makes a file or a folder of the host visible at its own path in the new
// root: the one of mounts if there is one. A link of the system's top folder, such
// as /bin, stays a link; other links are followed.
func show(path string, attr uint64, mounts map[string]int) error {
	at := filepath.Join(newRoot, path)
	if fd, ok := mounts[path]; ok {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return &os.PathError{Op: "stat", Path: path, Err: err}
		}
		if err := makePoint(at, st.Mode&unix.S_IFMT == unix.S_IFDIR); err != nil {
			return err
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "move_mount", Path: path, Err: err}
		}
		return setAttr(at, attr, unix.AT_RECURSIVE)
	}
	if to, err := os.Readlink(path); err == nil && filepath.Dir(path) == "/" && strings.HasPrefix(strings.TrimPrefix(to, "/"), "usr/") {
		return os.Symlink(to, at)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := makePoint(at, info.IsDir()); err != nil {
		return err
	}
	if err := unix.Mount(path, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "mount", Path: path, Err: err}
	}
	return setAttr(at, attr, unix.AT_RECURSIVE)
}

// makePoint makes a mount point for a file or a folder, unless it is there.
func makePoint(at string, folder bool) error {
	if _, err := os.Lstat(at); err == nil {
		return nil // it lies in a folder that is visible already
	}
	if folder {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	// Not opened: a process that another goroutine forks meanwhile would have
	// it open for writing, and the root could not be made read-only.
	if err := unix.Mknod(at, unix.S_IFREG|0o644, 0); err != nil {
		return &os.PathError{Op: "mknod", Path: at, Err: err}
	}
	return nil
}

// setAttr sets attributes of the mount at path.
func setAttr(path string, attr uint64, flags uint) error {
	if err := unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: attr}); err != nil {
		return &os.PathError{Op: "mount_setattr", Path: path, Err: err}
	}
	return nil
}
