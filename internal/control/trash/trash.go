// Package trash removes folders in the background, because removing a machine's
// disk or a saved layer can take long. If a process ends early, the next
// process on the folder removes the rest.
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

// A Can is a folder whose entries are removed, one at a time. Its methods are
// safe for concurrent use, also by several processes on the same folder.
type Can struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex
	idle    sync.Cond
	working bool
}

// Open returns the can in the folder dir, which must exist, and starts to empty
// it.
func Open(dir string, log *slog.Logger) *Can {
	c := &Can{dir: dir, log: log}
	c.idle.L = &c.mu
	c.wake()
	return c
}

// Discard moves path, which must be on the same file system, into the can. When
// it returns, path no longer exists. name becomes part of the entry's name, for
// people who inspect the can.
func (c *Can) Discard(path, name string) error {
	// Rename to a unique name in one step. A target folder created beforehand
	// would itself be trash, and another process could remove it.
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
		return // the running goroutine checks again before it ends
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

// empty removes the entries of the can. After an error it continues with the
// next entry, and returns the first error.
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

// Wait returns when the can is empty, or when emptying it has failed.
func (c *Can) Wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.working {
		c.idle.Wait()
	}
}
