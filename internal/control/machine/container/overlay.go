package container

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mountOverlay mounts the layers at target.
// The kernel is given descriptors instead of paths, so neither their length,
// nor a colon or comma in them, nor their number (up to 200) matters.
func mountOverlay(target string, lower []string, upper, work string) error {
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	name := func(path string) (string, error) {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
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
	up, err := name(upper)
	if err != nil {
		return err
	}
	wk, err := name(work)
	if err != nil {
		return err
	}
	options := "lowerdir=" + strings.Join(lowers, ":") + ",upperdir=" + up + ",workdir=" + wk
	if len(options) >= os.Getpagesize() {
		return fmt.Errorf("mount overlay: %d layers are too many", len(lower))
	}
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount overlay at %s: %w (an upper layer cannot lie on an overlay or a network disk: see aloft doctor)", target, err)
	}
	// Nobody else shall see what the machine's own mounts do to this one.
	return unix.Mount("", target, "", unix.MS_PRIVATE, "")
}

// unmountAll takes away whatever is mounted at target.
func unmountAll(target string) error {
	for {
		err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil // nothing is, or no more
		}
		if err != nil {
			return &os.PathError{Op: "unmount", Path: target, Err: err}
		}
	}
}
