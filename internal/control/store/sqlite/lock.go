package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"aloft/internal/fault"
	"aloft/internal/lockfile"
)

// handedOnWithin is how long to wait for a killed server's child to release the
// inherited lock.
const handedOnWithin = 5 * time.Second

// Lock takes the lock file of a data folder for this process, even if the
// database is elsewhere. The kernel releases the lock when the process ends for
// any reason.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	var holder string
	patience := handedOnWithin
	if text, _ := io.ReadAll(io.LimitReader(f, 32)); len(text) > 0 {
		holder = fmt.Sprintf(" (process %s)", strings.TrimSpace(string(text)))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			patience = 0 // the process that holds the lock is alive
		}
	}
	switch err := lockfile.Exclusive(f, patience); {
	case errors.Is(err, lockfile.ErrHeld):
		return nil, errors.Join(fault.Conflict("another server%s is using %s", holder, filepath.Dir(path)).
			Named("data_in_use").Hint("stop it, or give this server its own data folder"), f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	// The process id is only for the message above: a full disk must not
	// prevent the server from starting.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return f, nil
}
