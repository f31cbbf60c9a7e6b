package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/control/trash"
	"aloft/internal/lockfile"

	"golang.org/x/sys/unix"
)

// unfinished is the name prefix of layers being written.
const unfinished = "making-"

func (s *Store) layerDir(key string) string { return filepath.Join(s.dir, "layers", key) }

// heldLayer is a layer that this process protects from removal.
type heldLayer struct {
	lock *os.File
	last time.Time // when it was last handed out
}

// leastUnused is how long a layer stays locked after it was handed out, so that
// the caller can record its use.
const leastUnused = time.Hour

// letGo unlocks a layer if more time than unused and than leastUnused has
// passed since the layer was handed out.
func (s *Store) letGo(key string, unused time.Duration) {
	s.holding.Lock()
	defer s.holding.Unlock()
	if h, ok := s.locks[key]; ok && strings.HasPrefix(key, layerKey("")) && time.Since(h.last) > max(unused, leastUnused) {
		_ = h.lock.Close()
		delete(s.locks, key)
	}
}

// protectLayer locks a layer against removal until [Store.Prune] finds it unused, or
// until [Store.Close]. It reports whether the layer exists.
func (s *Store) protectLayer(key string) bool {
	s.holding.Lock()
	defer s.holding.Unlock()
	if h, ok := s.locks[key]; ok {
		s.locks[key] = heldLayer{h.lock, time.Now()}
		return true
	}
	lock, err := os.OpenFile(s.layerDir(key), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	// A process that holds the exclusive lock is about to remove the layer.
	if lockfile.Shared(lock) != nil || !lockfile.IsAt(lock, s.layerDir(key)) {
		_ = lock.Close()
		return false
	}
	s.locks[key] = heldLayer{lock, time.Now()}
	return true
}

// Close unlocks all layers. The store must not be used afterwards.
func (s *Store) Close() error {
	s.holding.Lock()
	defer s.holding.Unlock()
	var errs []error
	for key, h := range s.locks {
		errs = append(errs, lockfile.Unlock(h.lock), h.lock.Close())
		delete(s.locks, key)
	}
	return errors.Join(errs...)
}

// layer returns the directory of the layer key. If it does not exist, fill
// writes it into an empty directory. Concurrent calls for one layer may both
// fill; the later result is discarded.
func (s *Store) layer(ctx context.Context, key string, fill func(ctx context.Context, dir string) error) (string, error) {
	for range rounds {
		if s.protectLayer(key) {
			return s.layerDir(key), nil
		}
		if err := s.makeLayer(ctx, key, fill); err != nil {
			return "", fmt.Errorf("layer %s: %w", key, err)
		}
	}
	return "", fmt.Errorf("layer %s: concurrent prunes keep removing it", key)
}

// rounds is how often to create a layer again if a concurrent prune removes it
// before this process has locked it.
const rounds = 100

func (s *Store) makeLayer(ctx context.Context, key string, fill func(ctx context.Context, dir string) error) error {
	work, err := os.MkdirTemp(filepath.Join(s.dir, "layers"), unfinished)
	if err != nil {
		return err
	}
	// The lock tells sweep, in any process, that the folder is in use.
	lock, err := lockfile.Open(work)
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(lockfile.Unlock(lock), lock.Close()) }() // the caller takes a shared lock afterwards
	defer func() { _ = trash.RemoveAll(work) }()                            // after a successful rename, work no longer exists
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	if err := fill(ctx, work); err != nil {
		return err
	}
	err = os.Rename(work, s.layerDir(key))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil // another process was first
	}
	return err
}

// syncTree flushes everything below dir to disk. It is called before the layer
// gets its name, so that a power failure leaves a complete layer or none.
func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return &os.PathError{Op: "sync", Path: dir, Err: err}
	}
	return nil
}

// Generated returns a layer with copies of the given files, for use with any
// image. Keys are paths in the machine, values paths on the host. Files and
// folders belong to root, mode 0755.
func (s *Store) Generated(ctx context.Context, files map[string]string) (string, error) {
	var t tree
	for target, source := range files {
		data, err := os.ReadFile(source)
		if err != nil {
			return "", fmt.Errorf("layer: %w", err)
		}
		target = strings.TrimPrefix(target, "/")
		if dir := filepath.Dir(target); dir != "." {
			t.dir(dir, 0o755, 0)
		}
		t.file(target, 0o755, 0, data)
	}
	return s.generate(ctx, &t)
}

// generate returns the layer with the content t, named by t's digest.
func (s *Store) generate(ctx context.Context, t *tree) (string, error) {
	sum := sha256.New()
	t.digest(sum)
	key := "gen-" + hex.EncodeToString(sum.Sum(nil))[:32]
	return s.layer(ctx, key, func(_ context.Context, dir string) error {
		if err := t.write(dir); err != nil {
			return err
		}
		return syncTree(dir)
	})
}

// sweep removes unfinished layers of processes that died.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(filepath.Join(s.dir, "layers"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unfinished) {
			continue
		}
		path := filepath.Join(s.dir, "layers", e.Name())
		lock, err := lockfile.Open(path)
		if err != nil {
			continue // another process is writing or removing it
		}
		err = trash.RemoveAll(path)
		_ = lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
