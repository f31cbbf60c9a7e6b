package container

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A machine's log is what PID 1 prints, for who looks into a machine that does
// not boot. Everything in the machine can write there as well, so it is cut to
// nothing whenever it has grown too long.
const (
	maxLog      = 1 << 20
	logInterval = 30 * time.Second
)

// keepLogsShort looks after the logs until ctx ends.
func (r *Runtime) keepLogsShort(ctx context.Context) {
	tick := time.NewTicker(logInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := r.cutLogs(); err != nil {
				r.log.Error("cut machine logs", "err", err)
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
			err = os.Truncate(log, 0) // its writers append, so they go on at the start
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
