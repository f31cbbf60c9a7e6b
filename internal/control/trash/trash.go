// Package trash removes folders in the background: a machine's disk or a saved
// layer can be large, and who gives it up does not want to wait. What a process
// has not managed when it ends is there to be removed by the next.
package trash

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

// A Can empties one folder, one entry at a time. Its methods are safe for
// concurrent use, also by several processes on one folder.
type Can struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex
	idle    sync.Cond
	working bool
}

// Open returns the can that is the folder dir, which is there, and begins to
// empty it.
func Open(dir string, log *slog.Logger) *Can {
	c := &Can{dir: dir, log: log}
	c.idle.L = &c.mu
	c.wake()
	return c
}

// Discard moves path, which lies on the same file system, into the can. When it
// returns, path is free. The name is for whoever looks into the can.
func (c *Can) Discard(path, name string) error {
	// One step, to a name that nothing has: a folder made for it beforehand is
	// trash already, and may be gone by then.
	if err := os.Rename(path, filepath.Join(c.dir, name+"-"+rand.Text())); err != nil {
		return err
	}
	c.wake()
	return nil
}

// wake has the can emptied.
func (c *Can) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working {
		return // it looks again before it stops
	}
	c.working = true
	go c.work()
}

func (c *Can) work() {
	for {
		c.mu.Lock()
		entries, err := os.ReadDir(c.dir)
		if err == nil && len(entries) > 0 {
			c.mu.Unlock()
			err = empty(c.dir, entries)
			c.mu.Lock()
		}
		if err != nil || len(entries) == 0 {
			if err != nil {
				c.log.Error("remove what was discarded", "err", err)
			}
			c.working = false
			c.idle.Broadcast()
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

func empty(dir string, entries []fs.DirEntry) error {
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("empty trash: %w", err)
		}
	}
	return nil
}

// Wait returns when the can is empty or could not be emptied.
func (c *Can) Wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.working {
		c.idle.Wait()
	}
}
