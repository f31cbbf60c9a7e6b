package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Read reads all of a regular file of at most [MaxBytes].
func (t Target) Read() (contents []byte, info fs.FileInfo, err error) {
	f, info, err := openFile(t.At, t.Path, syscall.O_NOFOLLOW)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info.Size() > MaxBytes {
		return nil, nil, fmt.Errorf("%s is %d bytes long, and this tool edits files of at most %d: use sed or a script in Shell", t.Path, info.Size(), MaxBytes)
	}
	contents, err = io.ReadAll(io.LimitReader(f, MaxBytes))
	if err != nil {
		return nil, nil, Explain(t.Path, err)
	}
	return contents, info, nil
}

// Replace writes contents to the file by renaming a temporary file over it.
// Readers see either the old or the new contents, and a full disk leaves the
// old. An existing file keeps its mode; a new one gets mode minus the umask.
// Missing folders are created.
// old is the result of Read, or nil for a new file.
func (t *Target) Replace(contents []byte, old fs.FileInfo, mode fs.FileMode) error {
	if err := t.makeFolders(); err != nil {
		return err
	}
	if old != nil {
		// A rename succeeds even if the file is read-only, so check that it can
		// be written.
		if f, err := os.OpenFile(t.At, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0); err != nil {
			return Explain(t.Path, err)
		} else if err := f.Close(); err != nil {
			return Explain(t.Path, err)
		}
		mode = old.Mode()
	}
	if old != nil {
		if now, err := os.Lstat(t.At); err != nil {
			return Explain(t.Path, err)
		} else if now.Size() != old.Size() || !now.ModTime().Equal(old.ModTime()) || !os.SameFile(now, old) {
			return fmt.Errorf("%s was changed by somebody else in the meantime; nothing was written: Read it again", t.Path)
		}
		if mustStay(old) {
			return t.overwrite(contents)
		}
	}
	temp, err := createTemp(t.At, mode.Perm())
	if err != nil {
		if old != nil && errors.Is(err, fs.ErrPermission) {
			return t.overwrite(contents) // only the file can be written, not its folder
		}
		return Explain(filepath.Dir(t.Path), err)
	}
	_, err = temp.Write(contents)
	if err == nil && old != nil {
		err = temp.Chmod(mode) // the old file's mode, whatever the umask
	}
	if err2 := temp.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = os.Rename(temp.Name(), t.At)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // the first error is reported
		return Explain(t.Path, err)
	}
	return nil
}

// createTemp creates a temporary file in the folder of path.
func createTemp(path string, mode fs.FileMode) (*os.File, error) {
	for i := 0; ; i++ {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".aloft-%d-%d.tmp", os.Getpid(), i))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) || i == 1000 {
			return f, err
		}
	}
}

// mustStay reports whether replacing a file by a new one would lose something:
// its other hard links, or its owner.
func mustStay(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Nlink > 1 || int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid())
}

// overwrite writes contents into the existing file.
func (t *Target) overwrite(contents []byte) error {
	f, err := os.OpenFile(t.At, os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return Explain(t.Path, err)
	}
	_, err = f.Write(contents)
	if err := errors.Join(err, f.Close()); err != nil {
		return Explain(t.Path, err)
	}
	return nil
}

// Create creates the file and its missing folders.
func (t *Target) Create(data []byte) error {
	if err := t.makeFolders(); err != nil {
		return err
	}
	f, err := os.OpenFile(t.At, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return Explain(t.Path, err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(t.At) // a partial file would be mistaken for the whole
		return Explain(t.Path, err)
	}
	return nil
}
