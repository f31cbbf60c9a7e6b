package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// A Source is a checkout that another user of the host has opened.
type Source struct {
	Folder *os.File
	User   int // the user's id
	Group  int // the user's group
}

// Copy copies the folder to the new folder to. It reads with the rights of the
// user, follows no links, and skips everything but files, folders and links.
// The copy belongs to this process's user. It requires root unless User and
// Group are this process's own.
func (s Source) Copy(ctx context.Context, to string) error {
	done := make(chan error)
	go func() {
		// The thread has lost its supplementary groups. So it is never
		// unlocked, and ends with this goroutine.
		runtime.LockOSThread()
		r := reader{ctx: ctx, user: s.User, group: s.Group, ownUser: os.Geteuid(), ownGroup: os.Getegid()}
		err := r.leaveGroups()
		if err == nil {
			err = r.copyFolder(int(s.Folder.Fd()), ".", to)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("copy the checkout: %w", err)
	}
	return nil
}

// reader opens files with the rights of a user. Only one thread may use it.
type reader struct {
	ctx               context.Context
	user, group       int
	ownUser, ownGroup int // ids of this process
}

// leaveGroups removes the supplementary groups of the calling thread.
func (r reader) leaveGroups() error {
	if r.user == r.ownUser && r.group == r.ownGroup {
		return nil
	}
	// Use a raw system call: the function of package unix changes all threads.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("leave all groups: %w", errno)
	}
	return nil
}

// as calls f. While f runs, the calling thread opens files as the user.
func (r reader) as(f func() error) error {
	err := r.become(r.user, r.group)
	if err == nil {
		err = f()
	}
	return errors.Join(err, r.become(r.ownUser, r.ownGroup))
}

// become changes the user and the group with which the calling thread opens
// files. The kernel then removes or restores the capabilities that override
// file modes.
func (reader) become(user, group int) error {
	const same = ^uintptr(0)
	for _, c := range []struct {
		call uintptr
		id   int
	}{{unix.SYS_SETFSGID, group}, {unix.SYS_SETFSUID, user}} {
		_, _, _ = unix.RawSyscall(c.call, uintptr(c.id), 0, 0) // the call returns the previous id, even on failure
		if now, _, _ := unix.RawSyscall(c.call, same, 0, 0); int(now) != c.id {
			return fmt.Errorf("cannot open files as user %d and group %d", user, group)
		}
	}
	return nil
}

// open opens an entry of a folder as the user.
func (r reader) open(dir int, name string, flags uint64) (f *os.File, err error) {
	err = r.as(func() error {
		fd, err := unix.Openat2(dir, name, &unix.OpenHow{
			Flags:   flags | unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOFOLLOW,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
		if err != nil {
			return &os.PathError{Op: "open", Path: name, Err: err}
		}
		f = os.NewFile(uintptr(fd), name)
		return nil
	})
	return f, err
}

// readlink returns the target of a link in a folder.
func (r reader) readlink(dir int, name string) (target string, err error) {
	err = r.as(func() error {
		buffer := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, buffer)
		target = string(buffer[:max(n, 0)])
		return err
	})
	return target, err
}

func (r reader) copyFolder(parent int, name, to string) error {
	dir, err := r.open(parent, name, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // opened for reading only
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for {
		names, err := dir.Readdirnames(1000)
		for _, name := range names {
			if err := r.copyEntry(int(dir.Fd()), name, filepath.Join(to, name)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return copyMode(dir, to)
}

func (r reader) copyEntry(dir int, name, to string) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	var st unix.Stat_t
	if err := r.as(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return &os.PathError{Op: "stat", Path: name, Err: err}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return r.copyFolder(dir, name, to)
	case unix.S_IFREG:
		return r.copyFile(dir, name, to)
	case unix.S_IFLNK:
		target, err := r.readlink(dir, name)
		if err != nil {
			return &os.PathError{Op: "readlink", Path: name, Err: err}
		}
		return os.Symlink(target, to)
	}
	return nil
}

func (r reader) copyFile(dir int, name, to string) error {
	from, err := r.open(dir, name, 0)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // opened for reading only
	if info, err := from.Stat(); err != nil || !info.Mode().IsRegular() {
		return err // the file was replaced by another type
	}
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, contextReader{r.ctx, from})
	return errors.Join(err, w.Close(), copyMode(from, to))
}

// copyMode copies the permissions of the original to a copy.
func copyMode(from *os.File, to string) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm())
}

// contextReader reads until its context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements [io.Reader].
func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
