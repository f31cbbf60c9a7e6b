package dockerfile

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// workPrefix begins the names of the folders of builds.
const workPrefix = "dockerfile-"

// making keeps a build from sweeping away a folder that another has not locked yet.
var making sync.Mutex

// workDir makes the folder of a build, which holds its secrets. It is locked, so
// that Sweep knows it for one of a build that goes on; done removes it.
func workDir(dir string) (work string, done func() error, err error) {
	making.Lock()
	defer making.Unlock()
	if err := Sweep(dir); err != nil {
		return "", nil, err
	}
	if work, err = os.MkdirTemp(dir, workPrefix); err != nil {
		return "", nil, err
	}
	f, err := os.Open(work)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(work))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { // one that sweeps has it, and removes it
		return "", nil, errors.Join(err, f.Close(), os.RemoveAll(work))
	}
	return work, func() error { return errors.Join(os.RemoveAll(work), f.Close()) }, nil
}

// Sweep removes what builds that were killed have left in a Builder's folder:
// their secrets, and with their folders what they had for a network.
func Sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, workPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range left {
		f, err := os.Open(path)
		if err != nil {
			continue // it is gone
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			errs = append(errs, os.RemoveAll(path))
		}
		_ = f.Close()
	}
	return errors.Join(errs...)
}
