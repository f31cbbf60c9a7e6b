package container

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

// A janitor removes folders in the background, one at a time: a machine's disk
// can be large, and who destroys it does not want to wait. What it has not
// managed when the process ends is there to be removed by the next.
type janitor struct {
	trash string
	log   *slog.Logger

	mu      sync.Mutex
	idle    sync.Cond
	working bool
}

func newJanitor(trash string, log *slog.Logger) *janitor {
	j := &janitor{trash: trash, log: log}
	j.idle.L = &j.mu
	j.wake()
	return j
}

// discard moves dir into the trash, where it is not a machine any more.
func (j *janitor) discard(dir, name string) error {
	// One step, to a name that nothing has: a folder made for it beforehand is
	// trash already, and may be gone by then.
	if err := os.Rename(dir, filepath.Join(j.trash, name+"-"+rand.Text())); err != nil {
		return err
	}
	j.wake()
	return nil
}

// wake has the trash emptied.
func (j *janitor) wake() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.working {
		return // it looks again before it stops
	}
	j.working = true
	go j.work()
}

func (j *janitor) work() {
	for {
		j.mu.Lock()
		entries, err := os.ReadDir(j.trash)
		if err == nil && len(entries) > 0 {
			j.mu.Unlock()
			err = removeTrash(j.trash, entries)
			j.mu.Lock()
		}
		if err != nil || len(entries) == 0 {
			if err != nil {
				j.log.Error("remove destroyed machines", "err", err)
			}
			j.working = false
			j.idle.Broadcast()
			j.mu.Unlock()
			return
		}
		j.mu.Unlock()
	}
}

func removeTrash(trash string, entries []fs.DirEntry) error {
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(trash, e.Name())); err != nil {
			return fmt.Errorf("empty trash: %w", err)
		}
	}
	return nil
}

// wait returns when the trash is empty or could not be emptied.
func (j *janitor) wait() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.working {
		j.idle.Wait()
	}
}
