// Package atomicfile replaces files atomically: a reader, even after a crash, finds
// either the complete old contents or the complete new contents.
//
// It is for files that only Aloft uses. The tools that edit a user's files have their
// own rules about modes, links and concurrent changes.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write replaces the file at path with data, or creates it. Write syncs the file and its
// folder, so that the file survives a power cut if the error is nil. On an error the old
// file is untouched. Concurrent writers are safe; the last one wins.
func Write(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, (*File).Commit)
}

// WriteUnsynced is like [Write] but does not sync, which takes milliseconds. It
// is for files that are worthless once the kernel has stopped, such as those of
// a running machine. After a power cut the file may be empty or missing.
func WriteUnsynced(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, (*File).CommitUnsynced)
}

func write(path string, data []byte, mode fs.FileMode, commit func(*File) error) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = commit(f)
	}
	return errors.Join(err, f.Close())
}

// File is a new version of a file. Until it is committed, it has a temporary name in
// the same folder. It is not safe for concurrent use.
type File struct {
	*os.File
	path   string
	closed bool
}

// Create begins a new version of the file at path with the given mode, regardless of the
// umask. [File.Commit] moves it into place, [File.Close] discards it. [Unfinished]
// recognizes files that a crash has left behind.
func Create(path string, mode fs.FileMode) (*File, error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+unfinished+"*")
	if err != nil {
		return nil, err
	}
	f := &File{File: temp, path: path}
	if err := temp.Chmod(mode); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unfinished is part of the names of versions that are not committed.
const unfinished = ".unfinished-"

// Unfinished reports whether name, the base name of a file, belongs to a version that is
// being written or was left behind by a crash.
func Unfinished(name string) bool {
	return strings.HasPrefix(name, ".") && strings.Contains(name, unfinished)
}

// Commit syncs the file, renames it to its path and syncs the folder. After an error the
// old file is still in place, unless only the last sync failed.
func (f *File) Commit() error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.rename(); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(f.path))
}

// CommitUnsynced is like [File.Commit] but does not sync; see [WriteUnsynced].
func (f *File) CommitUnsynced() error { return f.rename() }

func (f *File) rename() error {
	if f.closed {
		return fmt.Errorf("commit %s: %w", f.path, fs.ErrClosed)
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return err
	}
	f.closed = true
	return f.File.Close()
}

// Close drops the new version. After a successful Commit it does nothing.
func (f *File) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	return errors.Join(f.File.Close(), os.Remove(f.Name()))
}

// Rename renames a file or folder and syncs both parent folders. The contents
// of a folder are not synced.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if filepath.Dir(from) != filepath.Dir(to) {
		if err := SyncDir(filepath.Dir(from)); err != nil {
			return err
		}
	}
	return SyncDir(filepath.Dir(to))
}

// SyncDir writes the entries of the folder at path to disk.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
