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

	"golang.org/x/sys/unix"
)

// unfinished begins the name of a layer that is still being written.
const unfinished = "making-"

func (s *Store) layerDir(key string) string { return filepath.Join(s.dir, "layers", key) }

// held is a layer that this process keeps others from removing.
type held struct {
	fd   int       // which has it locked
	last time.Time // that it was given out
}

// leastUnused is how long after it was given out a layer is this process's own
// at the least: what is made of it has been noted by then.
const leastUnused = time.Hour

// letGo gives up a layer of an image that was last given out longer ago.
func (s *Store) letGo(key string, unused time.Duration) {
	s.holding.Lock()
	defer s.holding.Unlock()
	if h, ok := s.held[key]; ok && strings.HasPrefix(key, layerKey("")) && time.Since(h.last) > max(unused, leastUnused) {
		_ = unix.Close(h.fd)
		delete(s.held, key)
	}
}

// hold locks a layer against removal, until [Store.Prune] finds it unused or this
// process ends, and reports whether it is there.
func (s *Store) hold(key string) bool {
	s.holding.Lock()
	defer s.holding.Unlock()
	if h, ok := s.held[key]; ok {
		s.held[key] = held{h.fd, time.Now()}
		return true
	}
	fd, err := unix.Open(s.layerDir(key), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	// Who has it locked alone is about to remove it; then the name is gone.
	if unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) != nil || !isAt(fd, s.layerDir(key)) {
		_ = unix.Close(fd)
		return false
	}
	s.held[key] = held{fd, time.Now()}
	return true
}

// isAt reports whether an open file is still what a path leads to.
func isAt(fd int, path string) bool {
	var a, b unix.Stat_t
	return unix.Fstat(fd, &a) == nil && unix.Lstat(path, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// layer returns the directory of the layer called key, which fill writes if
// it is not there yet. fill gets an empty directory. Two that make one layer at
// the same time do so side by side, and the second's work is thrown away.
func (s *Store) layer(ctx context.Context, key string, fill func(ctx context.Context, dir string) error) (string, error) {
	for range rounds {
		if s.hold(key) {
			return s.layerDir(key), nil
		}
		if err := s.makeLayer(ctx, key, fill); err != nil {
			return "", fmt.Errorf("layer %s: %w", key, err)
		}
	}
	return "", fmt.Errorf("layer %s: it is removed as often as it is made", key)
}

// rounds bounds how often a layer is made again that somebody who prunes found
// before its maker could hold it.
const rounds = 100

func (s *Store) makeLayer(ctx context.Context, key string, fill func(ctx context.Context, dir string) error) error {
	work, err := os.MkdirTemp(filepath.Join(s.dir, "layers"), unfinished)
	if err != nil {
		return err
	}
	// The lock tells sweep, in this process or another, that the folder has an owner.
	lock, err := lockDir(work)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(lock) }()
	defer func() { _ = os.RemoveAll(work) }() // there is nothing left of it after the rename
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	if err := fill(ctx, work); err != nil {
		return err
	}
	err = os.Rename(work, s.layerDir(key))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil // another was first
	}
	return err
}

// syncTree returns when all that was written below dir is on the disk: before it
// has its name, so that a power cut leaves a layer whole, or none.
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

// Generated returns a layer that holds copies of the given files, for what
// every machine gets whatever its image. The keys are paths in the machine, the
// values paths on the host; files and their folders are root's, mode 0755.
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

// generate returns the layer that holds t, named by t's digest.
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

// sweep removes what makers that died have left.
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
		lock, err := lockDir(path)
		if err != nil {
			continue // its maker lives, or somebody else sweeps it
		}
		err = os.RemoveAll(path)
		_ = unix.Close(lock)
		if err != nil {
			return err
		}
	}
	return nil
}

// lockDir takes the lock of a directory, without waiting, and returns the
// descriptor that holds it. It ends with the process.
func lockDir(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
