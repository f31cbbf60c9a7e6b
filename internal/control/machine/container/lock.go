package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/control/poll"
)

// lock takes the exclusive right to change the machine, among all processes. It
// waits for the current holder until ctx ends. The kernel releases the lock of
// a process that dies. The error wraps [machine.ErrNotFound] if the machine is
// gone or was removed during the wait.
func (m *Machine) lock(ctx context.Context) (unlock func(), err error) {
	dir, err := os.Open(m.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, machine.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	wait := poll.New(50 * time.Millisecond)
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock: %w", err), dir.Close())
		}
		if err := wait.Pause(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("lock: %w", err), dir.Close())
		}
	}
	// The previous holder may have removed the locked folder.
	if !sameFile(dir, m.dir) {
		return nil, errors.Join(machine.ErrNotFound, dir.Close())
	}
	return func() { _ = dir.Close() }, nil
}

func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	if err != nil {
		return false
	}
	x, ok1 := a.Sys().(*syscall.Stat_t)
	y, ok2 := b.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && x.Dev == y.Dev && x.Ino == y.Ino
}
