package execd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"aloft/internal/fault"
)

// path makes a caller's path absolute. What it may reach is what the agent's
// user may.
func (s *Server) path(given string) (string, error) {
	if given == "" {
		return "", fault.Invalid("the path is empty").At("path")
	}
	if strings.ContainsRune(given, 0) {
		return "", fault.Invalid("the path holds a NUL byte").At("path")
	}
	if !filepath.IsAbs(given) {
		given = filepath.Join(s.workspace, given)
	}
	return filepath.Clean(given), nil
}

// readFile returns the contents of a regular file of at most maxFile bytes.
func readFile(path string) ([]byte, error) {
	// A pipe would hold the open up for ever otherwise.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileFault(path, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fileFault(path, err)
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	tooLong := fault.Exhausted("%s is longer than %d MiB", path, maxFile>>20).
		Hint("read a part of it with a command such as head, tail or split")
	if info.Size() > maxFile {
		return nil, tooLong
	}
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1)) // its size may say nothing: /proc
	if err != nil {
		return nil, fileFault(path, err)
	}
	if len(b) > maxFile {
		return nil, tooLong
	}
	return b, nil
}

// writeFile makes the file, and the folders on the way, or replaces its
// contents: whole or not at all. What is there keeps its mode, and a link to it
// stays a link.
func writeFile(path string, contents []byte) error {
	if len(contents) > maxFile {
		return fault.Exhausted("the contents are longer than %d MiB", maxFile>>20).At("contents")
	}
	mode := fs.FileMode(0o644)
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
		info, err := os.Stat(path)
		if err != nil {
			return fileFault(path, err)
		}
		if err := regular(path, info); err != nil {
			return err
		}
		mode = info.Mode().Perm()
	} else if _, err := os.Lstat(path); err == nil {
		return fault.Invalid("%s is a link that leads nowhere", path).At("path")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fileFault(path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".aloft-write-*")
	if err != nil {
		return fileFault(path, err)
	}
	_, err = file.Write(contents)
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fileFault(path, errors.Join(err, removeIfThere(file.Name())))
	}
	return nil
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

// fileFault says what kind of failure an error of the file system is.
func fileFault(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFound("%s does not exist", path).At("path").Because(err)
	case errors.Is(err, fs.ErrPermission):
		return fault.Denied("%s may not be reached by the agent's user", path).At("path").Because(err)
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Invalid("%s: a part of the path is not a folder", path).At("path").Because(err)
	case errors.Is(err, syscall.ELOOP):
		return fault.Invalid("%s: too many links, or links in a circle", path).At("path").Because(err)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.Invalid("the path is too long").At("path").Because(err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Exhausted("%s: the disk is full", path).Because(err)
	case errors.Is(err, syscall.EROFS):
		return fault.Denied("%s is on a read-only file system", path).At("path").Because(err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
