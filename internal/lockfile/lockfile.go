// Package lockfile locks a file or folder for one process. The kernel releases the lock
// when the process ends, with one exception: a child that was forked just before
// inherits the lock and holds it until its exec. So the successor of a killed process
// may have to wait briefly.
//
// A lock belongs to the open file, not to its path. If a holder removes the path while
// others wait, they then lock a removed file, and a newcomer locks a new one at the
// same path. [Create] and [Open] check for that; callers that lock other files check
// with [IsAt].
package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// ErrHeld is returned if another process holds the lock.
var ErrHeld = syscall.EWOULDBLOCK

// Initial and maximum interval between attempts to acquire the lock. flock(2) itself
// cannot be canceled.
const (
	firstLook = time.Millisecond
	lastLook  = 50 * time.Millisecond
)

// Exclusive locks f until it is closed. If another process holds the lock, it
// retries for up to patience, and then returns [ErrHeld].
func Exclusive(f *os.File, patience time.Duration) error {
	if patience <= 0 {
		return flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, ErrHeld)
	defer cancel()
	return Wait(ctx, f)
}

// Wait locks f until it is closed. While another process holds the lock, it
// retries until ctx ends, and then returns the cause.
func Wait(ctx context.Context, f *os.File) error { return wait(ctx, f, syscall.LOCK_EX) }

// WaitShared is like [Wait], for a shared lock. Such a lock excludes only
// exclusive locks.
func WaitShared(ctx context.Context, f *os.File) error { return wait(ctx, f, syscall.LOCK_SH) }

// Block locks f until it is closed. It waits for other holders without a timeout, so
// they must release the lock soon.
func Block(f *os.File) error { return flock(f, syscall.LOCK_EX) }

// Shared takes a shared lock on f until it is closed. It returns [ErrHeld] if
// another process holds an exclusive one.
func Shared(f *os.File) error { return flock(f, syscall.LOCK_SH|syscall.LOCK_NB) }

// Unlock releases the lock on f at once. Closing f is not enough if this process starts
// other processes: a child that was forked just before holds the lock until its exec.
func Unlock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

// Create opens the file at path, creates it if it is missing, and locks it until it is
// closed. It waits until ctx ends, and then returns the cause. The locked file is at
// path, even if the previous holder removed its file there.
func Create(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := Wait(ctx, f); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		if IsAt(f, path) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// Open locks the existing file or folder at path until the returned file is closed. It
// does not wait: it returns [ErrHeld] if another process holds the lock, and
// [fs.ErrNotExist] if the path does not exist or names another file by now.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := Exclusive(f, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	if !IsAt(f, path) {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, fs.ErrNotExist), f.Close())
	}
	return f, nil
}

// IsAt reports whether path still names the open file f.
func IsAt(f *os.File, path string) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(own, now)
}

func wait(ctx context.Context, f *os.File, how int) error {
	t := time.NewTimer(0)
	defer t.Stop()
	for look := firstLook; ; look = min(look*3/2, lastLook) {
		if err := flock(f, how|syscall.LOCK_NB); !errors.Is(err, ErrHeld) {
			return err
		}
		t.Reset(look)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
