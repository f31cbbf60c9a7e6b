package layer

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aloft/internal/atomicfile"
	"aloft/internal/lockfile"
)

// A claim keeps layers from being removed. It ends by itself when the folder
// While is deleted or, without a folder, when the process that holds the lock
// on the claim's file ends. So nothing needs to be released after a crash.
type claim struct {
	While  string   `json:"while,omitempty"` // absolute path of a folder; if "", the claim lasts as long as the lock on its file
	Layers []string `json:"layers"`
}

// Claim keeps the layer id and the layers below it until the folder while is
// deleted. It returns the layers' directories, topmost first. It replaces a
// claim of the same name. If id is "", the claim is empty.
func (s *Store) Claim(name, while, id string) (dirs []string, err error) {
	err = s.locked(func() error {
		stack, err := s.Stack(id)
		if err != nil {
			return err
		}
		c := claim{While: while}
		for _, l := range stack {
			c.Layers = append(c.Layers, l.ID)
			dirs = append(dirs, s.tree(l.ID))
		}
		return s.writeClaim(name, c)
	})
	if err != nil {
		return nil, err
	}
	return dirs, nil
}

// extend adds a layer to a claim.
func (s *Store) extend(name, id string) error {
	c, err := s.readClaim(name)
	if err != nil {
		return err
	}
	c.Layers = append(c.Layers, id)
	return s.writeClaim(name, c)
}

func (s *Store) readClaim(name string) (claim, error) {
	var c claim
	data, err := os.ReadFile(s.path("claims", name))
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return c, fmt.Errorf("claim %s: %w", name, err)
	}
	return c, nil
}

func (s *Store) writeClaim(name string, c claim) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return atomicfile.Write(s.path("claims", name), data, 0o600)
}

// pin keeps the layers of a stack until unpin is called or this process ends.
func (s *Store) pin(id string) (stack []Layer, unpin func(), err error) {
	var f *os.File
	err = s.locked(func() error {
		if stack, err = s.Stack(id); err != nil {
			return err
		}
		var c claim
		for _, l := range stack {
			c.Layers = append(c.Layers, l.ID)
		}
		name := "process-" + rand.Text()
		if err := s.writeClaim(name, c); err != nil {
			return err
		}
		f, err = lockfile.Open(s.path("claims", name))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return stack, func() { _ = f.Close() }, nil
}

// claimed returns the ids of claimed layers and removes claims that have ended.
// The caller holds the store's lock.
func (s *Store) claimed() ([]string, error) {
	entries, err := os.ReadDir(s.path("claims", ""))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		path := s.path("claims", e.Name())
		if atomicfile.Unfinished(e.Name()) || strings.HasSuffix(e.Name(), ".new") { // ".new" was used before version 0.1
			if err := os.Remove(path); err != nil {
				return nil, err
			}
			continue
		}
		c, err := s.readClaim(e.Name())
		if err != nil {
			return nil, err
		}
		lasts, err := c.lasts(path)
		if err != nil {
			return nil, err
		}
		if !lasts {
			if err := os.Remove(path); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, c.Layers...)
	}
	return out, nil
}

func (c claim) lasts(path string) (bool, error) {
	if c.While != "" {
		_, err := os.Lstat(c.While)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	return hasLock(path)
}

// hasLock reports whether any process has a file or folder locked.
func hasLock(path string) (bool, error) {
	f, err := lockfile.Open(path)
	if errors.Is(err, lockfile.ErrHeld) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, f.Close()
}

// Collect removes the layers that are not needed and the leftovers of dead
// processes. The files are deleted in the background.
func (s *Store) Collect() error {
	if err := s.locked(s.collect); err != nil {
		return fmt.Errorf("collect layers: %w", err)
	}
	return nil
}

func (s *Store) collect() error {
	all, err := s.all()
	if err != nil {
		return err
	}
	needed, err := s.claimed()
	if err != nil {
		return err
	}
	parents := map[string]string{}
	for _, l := range all {
		parents[l.ID] = l.Parent
		if l.Kept {
			needed = append(needed, l.ID)
		}
	}
	live := map[string]bool{}
	for _, id := range needed {
		for ; id != "" && !live[id]; id = parents[id] {
			live[id] = true
		}
	}
	// Remove the tree before the description: a layer without a tree counts as
	// absent.
	trees, err := os.ReadDir(s.path("tree", ""))
	if err != nil {
		return err
	}
	for _, e := range trees {
		if _, whole := parents[e.Name()]; whole && live[e.Name()] {
			continue
		}
		if err := s.trash.Discard(s.tree(e.Name()), e.Name()); err != nil {
			return err
		}
		s.step("collect: discarded")
	}
	metas, err := os.ReadDir(s.path("meta", ""))
	if err != nil {
		return err
	}
	for _, e := range metas {
		id := strings.TrimSuffix(e.Name(), ".json")
		if _, whole := parents[id]; whole && live[id] {
			continue
		}
		if err := os.Remove(s.path("meta", e.Name())); err != nil {
			return err
		}
		s.step("collect: forgotten")
	}
	memories, err := os.ReadDir(s.path("memory", ""))
	if err != nil {
		return err
	}
	for _, e := range memories {
		if l, err := s.Layer(e.Name()); err == nil && l.Kept {
			continue // machines may still start from it
		}
		if err := s.trash.Discard(s.path("memory", e.Name()), e.Name()); err != nil {
			return err
		}
	}
	return s.collectWork()
}

// collectWork removes the work folders of dead processes.
func (s *Store) collectWork() error {
	entries, err := os.ReadDir(s.path("work", ""))
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := s.path("work", e.Name())
		if locked, err := hasLock(path); err != nil || locked {
			continue // the folder is still in use, or was just renamed into the store
		}
		if err := s.trash.Discard(path, e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// workDir creates a folder for a layer in progress. Collect does not remove the
// folder until done is called or this process ends. done removes it.
func (s *Store) workDir() (dir string, done func(), err error) {
	var f *os.File
	err = s.locked(func() error { // hold the store's lock, so that Collect does not find the folder before it is locked
		if dir, err = os.MkdirTemp(filepath.Join(s.dir, "work"), ""); err != nil {
			return err
		}
		f, err = lockfile.Open(dir)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	return dir, func() {
		_ = s.trash.Discard(dir, "work") // the rest is collected later
		_ = f.Close()
	}, nil
}

// moveInto turns the folder tree of a work folder into the layer l. The caller holds
// the store's lock.
func (s *Store) moveInto(l Layer, tree string) error {
	if l.Parent != "" && !s.Has(l.Parent) {
		return fmt.Errorf("layer %s: the layer below it was removed meanwhile: %w", l.ID, notFound(l.Parent))
	}
	if err := s.writeMeta(l); err != nil {
		return err
	}
	s.step("put: described")
	if err := os.Rename(tree, s.tree(l.ID)); err != nil {
		return err
	}
	s.step("put: moved")
	return syncDir(s.path("tree", ""))
}
