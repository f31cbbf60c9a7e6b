package layer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount mounts an overlay at target with the directories of lower, topmost
// first, and with upper on top, which receives all writes. It passes
// descriptors to the kernel, so the length of paths, colons and commas in them,
// and the number of layers (up to 200) cause no problems.
//
// The mount options keep upper independent of lower, whatever the host's
// defaults are: upper contains no redirects, and no files without data. So it
// can be frozen, packed and merged.
//
// upper must be below the folder that contains work, and not through a link.
func Mount(target string, lower []string, upper, work string) error {
	return mount(target, lower, upper, work, func(path string) (int, error) {
		return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
}

// MountMapped is like [Mount] with idmapped layers: the owners of files on the
// disk are mapped by the user namespace ids. The namespace must also map some
// id to the caller, because an overlay creates some files as its mounter.
// MountMapped needs Linux 5.19, and file systems with idmapped mounts.
//
// Before Linux 6.15, an overlay accepts only layers that are mounted in the
// caller's mount namespace. So MountMapped mounts them in a tmpfs at target
// until the overlay, which keeps mounts of its own, exists.
func MountMapped(target string, lower []string, upper, work string, ids *os.File) (err error) {
	if err := unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=0700"); err != nil {
		return &os.PathError{Op: "mount", Path: target, Err: err}
	}
	overlay, err := mountInside(target, lower, upper, work, ids)
	if err := errors.Join(err, unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)); err != nil {
		if overlay >= 0 {
			_ = unix.Close(overlay)
		}
		return err
	}
	defer func() { _ = unix.Close(overlay) }()
	if err := unix.MoveMount(overlay, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move the overlay to", Path: target, Err: err}
	}
	return unix.Mount("", target, "", unix.MS_PRIVATE, "")
}

// mountInside mounts the layers and the overlay of [MountMapped] in folders of
// dir. It returns a detached copy of the overlay's mount, or -1 and an error.
func mountInside(dir string, lower []string, upper, work string, ids *os.File) (int, error) {
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil { // so that mounts in dir do not propagate
		return -1, &os.PathError{Op: "make private", Path: dir, Err: err}
	}
	n := 0
	open := func(path string) (int, error) {
		n++
		at := filepath.Join(dir, strconv.Itoa(n))
		if err := os.Mkdir(at, 0o700); err != nil {
			return -1, err
		}
		fd, err := openMapped(path, ids)
		if err != nil {
			return -1, err
		}
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
		return fd, nil
	}
	overlay := filepath.Join(dir, "overlay")
	if err := os.Mkdir(overlay, 0o700); err != nil {
		return -1, err
	}
	if err := mount(overlay, lower, upper, work, open); err != nil {
		return -1, err
	}
	return unix.OpenTree(unix.AT_FDCWD, overlay, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
}

// BindMapped mounts the folder source at the folder target, with the owners mapped
// by the user namespace ids and with the given MOUNT_ATTR flags.
func BindMapped(source string, target, ids *os.File, attributes uint64) error {
	fd, err := openMapped(source, ids)
	if err != nil {
		return &os.PathError{Op: "map owners", Path: source, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attributes, Propagation: unix.MS_PRIVATE}); err != nil {
		return &os.PathError{Op: "set mount attributes", Path: source, Err: err}
	}
	if err := unix.MoveMount(fd, "", int(target.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "mount", Path: target.Name(), Err: err}
	}
	return nil
}

// CanMap returns nil if the file system at path has idmapped mounts. Overlays and
// network disks have none.
func CanMap(path string, ids *os.File) error {
	fd, err := openMapped(path, ids)
	if err != nil {
		return &os.PathError{Op: "map owners", Path: path, Err: err}
	}
	return unix.Close(fd)
}

// openMapped returns a detached idmapped mount of path.
func openMapped(path string, ids *os.File) (fd int, err error) {
	fd, err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ids.Fd())}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// mount mounts an overlay of the directories. It opens each directory with
// open.
func mount(target string, lower []string, upper, work string, open func(path string) (int, error)) error {
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	name := func(path string) (string, error) {
		fd, err := open(path)
		if err != nil {
			return "", &os.PathError{Op: "open layer", Path: path, Err: err}
		}
		fds = append(fds, fd)
		return fmt.Sprintf("/proc/self/fd/%d", fd), nil
	}
	var lowers []string
	for _, l := range lower {
		n, err := name(l)
		if err != nil {
			return err
		}
		lowers = append(lowers, n)
	}
	// Mount upper and work below one descriptor, because an overlay requires
	// both on the same mount.
	parent, err := name(filepath.Dir(work))
	if err != nil {
		return err
	}
	below, ok := strings.CutPrefix(upper, filepath.Dir(work)+"/")
	if !ok {
		return fmt.Errorf("mount overlay: %s is not beside %s", work, upper)
	}
	up, wk := parent+"/"+below, parent+"/"+filepath.Base(work)
	options := "lowerdir=" + strings.Join(lowers, ":") + ",upperdir=" + up + ",workdir=" + wk + ",redirect_dir=off,metacopy=off,index=off"
	if len(options) >= os.Getpagesize() {
		return fmt.Errorf("mount overlay: %d layers are too many: start from a snapshot that was exported and imported, which is one layer, or from the image", len(lower))
	}
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount overlay at %s: %w (an upper layer cannot lie on an overlay or a network disk: see aloft doctor)", target, err)
	}
	// Keep mounts made inside the machine from propagating to the host.
	return unix.Mount("", target, "", unix.MS_PRIVATE, "")
}

// Unmount unmounts everything at target.
func Unmount(target string) error {
	for {
		err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil // nothing is mounted there
		}
		if err != nil {
			return &os.PathError{Op: "unmount", Path: target, Err: err}
		}
	}
}
