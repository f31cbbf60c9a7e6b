package execd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/fault"
)

// path makes a caller's path absolute. Callers may access any path that the
// agent's user can.
func (s *Server) path(given string) (string, error) {
	if given == "" {
		return "", fault.Invalid("the path is empty").At("path")
	}
	if strings.ContainsRune(given, 0) {
		return "", fault.Invalid("the path contains a NUL byte").At("path")
	}
	if !filepath.IsAbs(given) {
		given = filepath.Join(s.workspace, given)
	}
	return filepath.Clean(given), nil
}

// openFile opens a regular file for reading.
func openFile(path string) (*os.File, fs.FileInfo, error) {
	// O_NONBLOCK keeps the open from blocking on a pipe.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fileFault(path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, errors.Join(fileFault(path, err), file.Close())
	}
	if err := regular(path, info); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// readPart returns part of a file, and the file's size in bytes. With limit 0
// it reads from offset to the end, and returns an error if that is more than
// maxFile.
func readPart(path string, offset, limit int64) (contents []byte, size int64, err error) {
	if offset < 0 || limit < 0 {
		return nil, 0, fault.Invalid("offset and limit must not be negative").At("offset")
	}
	file, info, err := openFile(path)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	tooLong := fault.Exhausted("%s is longer than %d MiB", path, maxFile>>20).
		Hint("read it in parts, with offset and limit, or stream it with FileService.ReadFile")
	whole := limit == 0
	if whole && info.Size()-offset > maxFile {
		return nil, 0, tooLong
	}
	if whole || limit > maxFile {
		limit = maxFile
	}
	if offset > 0 {
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return nil, 0, fileFault(path, err)
		}
	}
	b, err := io.ReadAll(io.LimitReader(file, limit+1)) // do not trust its size, which is 0 in /proc
	if err != nil {
		return nil, 0, fileFault(path, err)
	}
	if int64(len(b)) > limit {
		if whole {
			return nil, 0, tooLong
		}
		b = b[:limit]
	}
	return b, max(info.Size(), offset+int64(len(b))), nil
}

// writeFile creates a file and its missing parent folders, or replaces its
// contents atomically.
func writeFile(path string, contents []byte) error {
	if len(contents) > maxFile {
		return fault.Exhausted("the contents are longer than %d MiB", maxFile>>20).At("contents").
			Hint("stream them with FileService.WriteFile")
	}
	r, err := replaceFile(path, 0o644)
	if err != nil {
		return err
	}
	if _, err := r.Write(contents); err != nil {
		return errors.Join(fileFault(path, err), r.drop())
	}
	return r.commit(condition{})
}

// replacement is a new version of a file. commit renames it over the old one,
// and keeps the mode and symbolic links to the file. Before commit readers see
// the old file. Of two concurrent writers the last to commit wins.
type replacement struct {
	*os.File
	path string
}

// replaceFile starts creating or replacing a file; mode is that of a new file.
// The caller must call commit or drop.
func replaceFile(path string, mode fs.FileMode) (*replacement, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
		info, err := os.Stat(path)
		if err != nil {
			return nil, fileFault(path, err)
		}
		if err := regular(path, info); err != nil {
			return nil, err
		}
		mode = info.Mode().Perm()
	} else if _, err := os.Lstat(path); err == nil {
		return nil, fault.Invalid("%s is a symbolic link whose target does not exist", path).At("path")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fileFault(path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".aloft-write-*")
	if err != nil {
		return nil, fileFault(path, err)
	}
	r := &replacement{file, path}
	if err := file.Chmod(mode); err != nil {
		return nil, errors.Join(fileFault(path, err), r.drop())
	}
	return r, nil
}

// commit renames the new version into place if the file still meets the
// condition.
func (r *replacement) commit(must condition) error {
	err := r.Close()
	if err == nil {
		err = must.check(r.path)
	}
	switch {
	case err != nil:
	case must.absent:
		err = moveFile(r.Name(), r.path)
	default:
		err = os.Rename(r.Name(), r.path)
	}
	if err != nil {
		return fileFault(r.path, errors.Join(err, removeIfThere(r.Name())))
	}
	return nil
}

// A condition must be true of a file for a write to succeed. It is checked
// right before the rename; a change between check and rename is lost.
type condition struct {
	sha256 string // of the file's contents; "" accepts any contents
	absent bool
}

// check returns nil if the file at path meets the condition.
func (c condition) check(path string) error {
	if c.absent {
		if _, err := os.Lstat(path); err == nil {
			return fault.Conflict("%s already exists", path).At("path")
		}
	}
	if c.sha256 == "" {
		return nil
	}
	file, _, err := openFile(path)
	if err != nil {
		if fault.Of(err).Kind == fault.KindNotFound {
			return fault.Conflict("%s no longer exists", path).At("path")
		}
		return err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return fileFault(path, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != c.sha256 {
		return fault.Conflict("%s has changed since it was read", path).At("path")
	}
	return nil
}

// moveFile renames a file or a folder; it fails if the destination exists.
func moveFile(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // the file system does not support RENAME_NOREPLACE
		if _, there := os.Lstat(to); there == nil {
			return syscall.EEXIST
		}
		err = syscall.Rename(from, to)
	}
	return err
}

// drop removes the new version and leaves the file unchanged.
func (r *replacement) drop() error {
	return errors.Join(r.Close(), removeIfThere(r.Name()))
}

func regular(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return fault.Invalid("%s is a folder", path).At("path").Hint("use ListDirectory")
	case !info.Mode().IsRegular():
		return fault.Invalid("%s is not a regular file", path).At("path")
	}
	return nil
}

// fileFault converts an error of the file system to a fault.
func fileFault(path string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	switch {
	case errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY):
		return fault.Conflict("%s already exists", path).At("path").Because(err)
	case errors.Is(err, syscall.ENOTEMPTY):
		return fault.Conflict("%s is not empty", path).At("path").Because(err)
	case errors.Is(err, syscall.EBUSY):
		return fault.Conflict("%s is in use: something is mounted there", path).At("path").Because(err)
	case errors.Is(err, syscall.EXDEV):
		return fault.Invalid("%s is on another file system", path).At("path").Hint("copy it there").Because(err)
	case errors.Is(err, syscall.EINVAL):
		return fault.Invalid("%s is not a valid destination", path).At("path").Because(err)
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFound("%s does not exist", path).At("path").Because(err)
	case errors.Is(err, fs.ErrPermission):
		return fault.Denied("the agent's user has no permission for %s", path).At("path").Because(err)
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Invalid("%s: one of its parents is not a folder", path).At("path").Because(err)
	case errors.Is(err, syscall.ELOOP):
		return fault.Invalid("%s: its symbolic links form a loop, or there are too many of them", path).At("path").Because(err)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.Invalid("the path is too long").At("path").Because(err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Exhausted("%s: the disk is full", path).Because(err)
	case errors.Is(err, syscall.EROFS):
		return fault.Denied("%s is on a read-only file system", path).At("path").Because(err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
