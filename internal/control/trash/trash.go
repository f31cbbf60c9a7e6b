// Package trash removes folders in the background, because removing a machine's
// disk or a saved layer can take long. The next process removes what one has
// left.
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

// A Can removes the entries of one folder, one at a time. Its methods are safe
// for concurrent use, also by several processes on the same folder.
type Can struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex
	idle    sync.Cond
	working bool
}

// Open returns the can for the folder dir, which must exist, and starts to
// empty it.
func Open(dir string, log *slog.Logger) *Can {
	c := &Can{dir: dir, log: log}
	c.idle.L = &c.mu
	c.wake()
	return c
}

// Discard moves path, which must be on the same file system, into the can. When
// it returns, path is free. name is for people who look into the can.
func (c *Can) Discard(path, name string) error {
	// Use a single rename to a unique name. A folder created beforehand as its
	// target would itself be trash, and another process could remove it.
	if err := os.Rename(path, filepath.Join(c.dir, name+"-"+rand.Text())); err != nil {
		return err
	}
	c.wake()
	return nil
}

// wake starts emptying the can.
func (c *Can) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working {
		return // the running goroutine checks again before it stops
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
			err = c.empty(entries)
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

// empty removes the entries of the can. It goes on after an error, and returns
// the first.
func (c *Can) empty(entries []fs.DirEntry) error {
	can, err := os.Open(c.dir)
	if err != nil {
		return err
	}
	defer func() { _ = can.Close() }()
	for _, e := range entries {
		if failed := remove(can, can, e.Name(), 0); failed != nil && err == nil {
			err = fmt.Errorf("empty trash: %s: %w", e.Name(), failed)
		}
	}
	return err
}

// Wait returns when the can is empty or could not be emptied.
func (c *Can) Wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.working {
		c.idle.Wait()
	}
}
