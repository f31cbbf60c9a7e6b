// Package file opens, reads and replaces the files that a model names in its
// tool calls. Programs of the agent may rename folders and place links at any
// time, so a file is changed only through its open folder, and only if it is
// the file that was approved. The package also remembers what the model has
// read, and which files .cursorignore hides from it. The messages of its errors
// are for the model.
package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// MaxBytes is the size of the largest file that can be edited.
const MaxBytes = 16 << 20

// Workspace is the folder that the model works in.
type Workspace struct {
	Dir  string   // absolute; relative paths start here
	Home string   // home folder of the agent's user; "" if there is none
	Free []string // folders outside Dir that a guarded call may change
}

// Path returns the absolute form of a path that the model gave. It refuses
// paths that .cursorignore hides.
func (w Workspace) Path(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("path is empty: give a path, absolute or relative to " + w.Dir)
	case strings.ContainsRune(name, 0):
		return "", fmt.Errorf("path %q contains a zero byte, which no file name can", name)
	case filepath.IsAbs(name):
		name = filepath.Clean(name)
	default:
		name = filepath.Join(w.Dir, name)
	}
	return name, NewUnseen(w.Dir).Check(name)
}

// RealPath resolves the symbolic links of a path, as far as the path exists.
func RealPath(name string) string {
	for rest := ""; ; {
		if found, err := filepath.EvalSymlinks(name); err == nil {
			return filepath.Join(found, rest)
		}
		up := filepath.Dir(name)
		if up == name {
			return filepath.Join(name, rest)
		}
		name, rest = up, filepath.Join(filepath.Base(name), rest)
	}
}

// Open opens a regular file for reading. It refuses anything else before
// opening it: reading a pipe can block forever, and opening a device can have
// side effects.
func Open(path string) (*os.File, fs.FileInfo, error) { return openFile(path, path, 0) }

// openFile opens the regular file that is reached through at. Its errors call the file
// path.
func openFile(at, path string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|flags, 0)
	if err != nil {
		if errors.Is(err, syscall.ENXIO) {
			return nil, nil, fmt.Errorf("%s is a socket or a device, not a file", path)
		}
		return nil, nil, Explain(path, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = Explain(path, err)
	case info.IsDir():
		err = fmt.Errorf("%s is a folder: list it with LS or Glob", path)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is %s, not a file", path, Kind(info.Mode()))
	default:
		return f, info, nil
	}
	_ = f.Close() // nothing was done with it
	return nil, nil, err
}

// Kind returns what a path leads to if it is not a regular file, for error
// messages.
func Kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// deniedError means that the machine's policy refused a call.
type deniedError struct{ error }

// Denied returns an error that [IsDenied] recognizes.
func Denied(format string, args ...any) error { return deniedError{fmt.Errorf(format, args...)} }

// IsDenied reports whether the machine's policy refused a call.
func IsDenied(err error) bool {
	_, ok := errors.AsType[deniedError](err)
	return ok
}

// Explain turns a file error into a message that the model can act on.
func Explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist%s", path, nearestFolder(path))
	case errors.Is(err, fs.ErrPermission):
		return Denied("permission denied: %s is not accessible to user id %d; check it with ls -ld, or use sudo in Shell if you mean it", path, os.Getuid())
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("%s: its symbolic links form a loop; check them with ls -l", path)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: one of its parent folders is a file", path)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("the path is too long: a name may have 255 bytes and a path 4095")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk is full, so %s cannot be written; free some space and try again", path)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s is on a read-only file system", path)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok { // the error's path may point through an open folder, so drop it
		return fmt.Errorf("%s: %w", path, e.Err)
	}
	return err
}

// nearestFolder says how much of a missing path exists.
func nearestFolder(path string) string {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err == nil {
		return fmt.Sprintf("; its folder %s does: list it with Glob", dir)
	}
	for dir != "/" && dir != "." {
		dir = filepath.Dir(dir)
		if _, err := os.Stat(dir); err == nil {
			return fmt.Sprintf("; the nearest existing folder is %s", dir)
		}
	}
	return ""
}
