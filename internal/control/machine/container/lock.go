package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"aloft/internal/control/machine"
	"aloft/internal/lockfile"
)

// lock takes the machine's lock, which excludes all other processes from
// changing the machine. It waits for the current holder until ctx ends. The
// kernel releases the lock of a process that dies. The error wraps
// [machine.ErrNotFound] if the machine is gone or was removed during the wait.
func (m *Machine) lock(ctx context.Context) (unlock func(), err error) {
	dir, err := os.Open(m.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, machine.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if err := lockfile.Wait(ctx, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("lock: %w", err), dir.Close())
	}
	// The previous holder may have removed the locked folder.
	if !lockfile.IsAt(dir, m.dir) {
		return nil, errors.Join(machine.ErrNotFound, dir.Close())
	}
	return func() { _ = dir.Close() }, nil
}
