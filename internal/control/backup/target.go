package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/atomicfile"
	"aloft/internal/fault"
	"aloft/internal/lockfile"
)

// A target is the folder beside a data folder into which a backup is restored.
// It is locked, so that the next restore can recognize and remove the leftovers
// of a killed one.
type target struct {
	data string
	dir  string // "" after commit
	root *os.Root
	lock *os.File
}

// newTarget checks that the data folder is empty or absent and unused.
func newTarget(data string) (_ *target, err error) {
	if data, err = filepath.Abs(data); err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(data); err == nil {
		data = real
	}
	if err := checkEmpty(data); err != nil {
		return nil, err
	}
	parent := filepath.Dir(data)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	if isMount(data, parent) {
		return nil, fault.Conflict("%s is a mount point, which cannot be replaced", data).Named("data_is_mount").
			Hint("restore into a folder below it, such as %s", filepath.Join(data, "data"))
	}
	prefix := "." + filepath.Base(data) + ".restore-"
	if err := sweep(parent, prefix); err != nil {
		return nil, err
	}
	t := &target{data: data}
	if t.dir, err = os.MkdirTemp(parent, prefix); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.lock, err = lockfile.Open(t.dir); err != nil {
		return nil, err
	}
	t.root, err = os.OpenRoot(t.dir)
	return t, err
}

func checkEmpty(data string) error {
	entries, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	switch f, err := lockfile.Open(filepath.Join(data, database+".lock")); {
	case err == nil:
		_ = f.Close()
	case errors.Is(err, lockfile.ErrHeld):
		return fault.Conflict("a server is using %s", data).Named("data_in_use").Hint("restore into another folder, or stop the server and move its folder away")
	}
	return fault.Conflict("%s is not empty", data).Named("data_not_empty").Hint("move it away, or choose another folder with --data")
}

func isMount(data, parent string) bool {
	a, err := os.Stat(data)
	if err != nil {
		return false
	}
	b, err := os.Stat(parent)
	if err != nil {
		return false
	}
	of, ok := a.Sys().(*syscall.Stat_t)
	above, ok2 := b.Sys().(*syscall.Stat_t)
	return ok && ok2 && of.Dev != above.Dev
}

// sweep removes the folders of killed restores.
func sweep(parent, prefix string) error {
	left, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		f, err := lockfile.Open(dir)
		if err != nil {
			continue // the restore is running, or the folder is gone
		}
		if err := errors.Join(os.RemoveAll(dir), f.Close()); err != nil {
			return fmt.Errorf("remove what an interrupted restore left: %w", err)
		}
	}
	return nil
}

// commit renames the folder to the data folder. It fails if the data folder is
// no longer empty.
func (t *target) commit() error {
	if err := os.Chmod(t.dir, 0o700); err != nil {
		return err
	}
	if err := unix.Syncfs(int(t.lock.Fd())); err != nil {
		return fmt.Errorf("write to disk: %w", err)
	}
	if err := unix.Rename(t.dir, t.data); err != nil { // unlike os.Rename, this call replaces an empty folder
		return fmt.Errorf("rename the restored folder to %s: %w", t.data, err)
	}
	t.dir = ""
	return atomicfile.SyncDir(filepath.Dir(t.data))
}

func (t *target) close() error {
	var errs []error
	if t.root != nil {
		errs = append(errs, t.root.Close())
	}
	if t.dir != "" {
		errs = append(errs, os.RemoveAll(t.dir))
	}
	if t.lock != nil {
		errs = append(errs, t.lock.Close())
	}
	return errors.Join(errs...)
}
