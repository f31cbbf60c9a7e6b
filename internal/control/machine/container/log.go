package container

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A machine's log is the output of PID 1, for diagnosing a machine that does
// not boot. Every process in the machine can write to it, so it is truncated
// when it grows too large.
const (
	maxLog      = 1 << 20
	logInterval = 30 * time.Second
)

// keepLogsShort truncates large logs periodically until ctx ends.
func (r *Runtime) keepLogsShort(ctx context.Context) {
	tick := time.NewTicker(logInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := r.cutLogs(); err != nil {
				r.log.Error("cannot truncate machine logs", "err", err)
			}
		}
	}
}

func (r *Runtime) cutLogs() error {
	logs, err := filepath.Glob(filepath.Join(r.conf.Dir, "machines", "*", "log"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		info, err := os.Stat(log)
		if err == nil && info.Size() > maxLog {
			err = os.Truncate(log, 0) // writers use O_APPEND, so they continue at offset 0
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
