package dockerfile

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"aloft/internal/lockfile"
)

// workPrefix is the name prefix of the folders of builds.
const workPrefix = "dockerfile-"

// making prevents Sweep from removing a folder that a build has created but not
// locked yet.
var making sync.Mutex

// workDir creates the folder of a build, which holds its secrets. A lock tells
// Sweep that the build is running. done removes the folder.
func workDir(dir string) (work string, done func() error, err error) {
	making.Lock()
	defer making.Unlock()
	if err := Sweep(dir); err != nil {
		return "", nil, err
	}
	if work, err = os.MkdirTemp(dir, workPrefix); err != nil {
		return "", nil, err
	}
	f, err := lockfile.Open(work)
	if err != nil { // Sweep in another process has locked the folder, and removes it
		return "", nil, errors.Join(err, os.RemoveAll(work))
	}
	return work, func() error { return errors.Join(os.RemoveAll(work), f.Close()) }, nil
}

// Sweep removes the folders of killed builds, which contain secrets, from a
// Builder's folder. The networks of these builds end with their folders.
func Sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, workPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range left {
		f, err := lockfile.Open(path)
		if err != nil {
			continue // the build is running, or the folder is gone
		}
		errs = append(errs, os.RemoveAll(path))
		_ = f.Close()
	}
	return errors.Join(errs...)
}
