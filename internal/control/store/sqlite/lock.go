package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"aloft/internal/fault"
)

// lock takes the lock file for this process. The kernel lets it go when the
// process ends, however it ends.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		holder := ""
		if pid, _ := io.ReadAll(io.LimitReader(f, 32)); len(pid) > 0 {
			holder = fmt.Sprintf(" (process %s)", strings.TrimSpace(string(pid)))
		}
		return nil, errors.Join(fault.Conflict("another server%s is using %s", holder, filepath.Dir(path)).
			Named("data_in_use").Hint("stop it, or give this one a data folder of its own"), f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	// The number is for the message above only: a disk that is too full for it
	// must not keep a server from starting.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}
