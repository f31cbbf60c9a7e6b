package trash

import (
	"crypto/rand"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxOpen is how many nested folders are open at a time. A machine can nest
// folders until its disk is full. One descriptor for each would use up the
// server's descriptors, and the path of the innermost folder exceeds the
// system's limit.
const maxOpen = 32

// batch is how many names are read from a folder at a time.
const batch = 1024

// RemoveAll removes the file or folder at path with everything in it. Unlike
// [os.RemoveAll], it has no limit on how deep folders are nested. If path is
// missing, it returns nil. Nothing may write to the folder meanwhile.
func RemoveAll(path string) error {
	err := unix.Unlink(path)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	// Move folders that are nested too deep to the folder itself.
	folder, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	for {
		removed, err := removeBatch(folder, folder, 0)
		if err != nil {
			return &os.PathError{Op: "remove", Path: path, Err: err}
		}
		if !removed {
			break
		}
	}
	if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// remove removes the file or folder name in dir with everything in it. It moves
// folders that are nested too deep into the can, as further entries. Errors
// contain no path, because a machine has chosen the names.
func remove(can, dir *os.File, name string, depth int) error {
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if depth >= maxOpen {
		return unix.Renameat(int(dir.Fd()), name, int(can.Fd()), "deep-"+rand.Text())
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	folder := os.NewFile(uintptr(fd), "trash")
	defer func() { _ = folder.Close() }()
	for {
		removed, err := removeBatch(can, folder, depth)
		if err != nil {
			return err
		}
		if !removed {
			break
		}
	}
	if err := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// removeBatch removes some entries of an open folder. removed is false if the
// folder has no entries. It tries every entry, and returns the first error.
func removeBatch(can, folder *os.File, depth int) (removed bool, err error) {
	// Rewind each time, because removing entries invalidates the read position.
	if _, err := folder.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	names, err := folder.Readdirnames(batch)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	err = nil
	for _, name := range names {
		if failed := remove(can, folder, name, depth+1); failed != nil && err == nil {
			err = failed
		}
	}
	return len(names) > 0, err
}
