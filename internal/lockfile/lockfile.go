// Package lockfile locks a file for one process. The kernel releases the lock
// when the process ends, with one exception: a child that was forked just
// before inherits the lock and holds it until its exec. So the successor of a
// killed process may have to wait briefly.
package lockfile

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// ErrHeld is returned if another process holds the lock.
var ErrHeld = syscall.EWOULDBLOCK

// look is the interval between two attempts to get the lock.
const look = 5 * time.Millisecond

// Exclusive locks f until it is closed. If another process holds the lock, it
// retries for up to patience, and then returns [ErrHeld].
func Exclusive(f *os.File, patience time.Duration) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, ErrHeld) || time.Now().After(end):
			return err
		}
	}
}
