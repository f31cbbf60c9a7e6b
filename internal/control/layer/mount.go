package layer

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount mounts an overlay at target: the directories of lower, topmost first,
// and upper above them, which takes what is written.
// The kernel is given descriptors instead of paths, so neither their length,
// nor a colon or comma in them, nor their number (up to 200) matters.
//
// Whatever the host's defaults, upper holds nothing that means something only
// beside this lower: no redirects, no files without their data. So it can be
// frozen, packed and merged.
func Mount(target string, lower []string, upper, work string) error {
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
	options := "lowerdir=" + strings.Join(lowers, ":") + ",upperdir=" + up + ",workdir=" + wk + ",redirect_dir=off,metacopy=off,index=off"
	if len(options) >= os.Getpagesize() {
		return fmt.Errorf("mount overlay: %d layers are too many: start from a snapshot that was exported and imported, which is one layer, or from the image", len(lower))
	}
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount overlay at %s: %w (an upper layer cannot lie on an overlay or a network disk: see aloft doctor)", target, err)
	}
	// Nobody else shall see what the machine's own mounts do to this one.
	return unix.Mount("", target, "", unix.MS_PRIVATE, "")
}

// Unmount takes away whatever is mounted at target.
func Unmount(target string) error {
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
