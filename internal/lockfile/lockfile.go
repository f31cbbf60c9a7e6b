// Package lockfile locks a file for one process among all. The kernel drops the
// lock of a process that ends, however it ends, save for one thing: a child that
// was forked just before holds it too, until it has become another program. So
// whoever starts in place of a process that was killed waits a moment.
package lockfile

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// ErrHeld is the error of a lock that another process has.
var ErrHeld = syscall.EWOULDBLOCK

// Between two looks at a lock that is held.
const look = 5 * time.Millisecond

// Exclusive locks f until it is closed. Where another has the lock it waits up to
// patience for it, and then returns [ErrHeld].
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
