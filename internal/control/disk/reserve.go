package disk

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// reserve is a file that occupies disk space until the space is needed. Its
// methods are safe for concurrent use, since all state is in the file.
type reserve struct {
	path string
	size int64
}

// isComplete reports whether the file has its full size.
func (r reserve) isComplete() bool {
	info, err := os.Lstat(r.path)
	return err == nil && info.Size() == r.size
}

// take creates the file. If it cannot be created in full, it is removed.
func (r reserve) take() (err error) {
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(r.path))
		}
	}()
	err = unix.Fallocate(int(f.Fd()), 0, 0, r.size)
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	zeros := make([]byte, 1<<20)
	for n := int64(0); n < r.size; n += int64(len(zeros)) {
		if _, err := f.Write(zeros[:min(int64(len(zeros)), r.size-n)]); err != nil {
			return err
		}
	}
	return nil
}

// release deletes the file, and reports whether that freed any space.
func (r reserve) release() bool {
	err := os.Remove(r.path)
	return err == nil || !errors.Is(err, fs.ErrNotExist) && os.Truncate(r.path, 0) == nil
}
