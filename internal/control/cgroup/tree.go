package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/poll"
)

// Kill kills the processes of the named cgroup and the cgroups below it in
// every hierarchy. It returns when they are gone or ctx ends.
func Kill(ctx context.Context, name string) error {
	all, err := Mounted()
	if err != nil {
		return err
	}
	wait := poll.New(20 * time.Millisecond)
	for {
		left := 0
		for _, h := range all {
			pids, err := Processes(filepath.Join(h.Dir, name))
			if err != nil {
				return err
			}
			for _, pid := range pids {
				left++
				killMember(pid, name)
			}
		}
		if left == 0 {
			return nil
		}
		if err := wait.Pause(ctx); err != nil {
			return fmt.Errorf("%d processes of cgroup %s are still running after SIGKILL: %w", left, name, err)
		}
	}
}

// killMember kills a process if it is still in the cgroup. The check guards
// against a reused PID.
func killMember(pid int, name string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || !bytes.Contains(groups, []byte("/"+name)) {
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // the process may have exited; the caller checks again
}

// Processes lists the processes of the cgroup at path dir and of the cgroups
// below it. A removed cgroup has no processes.
func Processes(dir string) ([]int, error) {
	var pids []int
	err := walk(dir, func(group *os.File) error {
		data, err := readIn(group, "cgroup.procs")
		if err != nil {
			return skipGone(err)
		}
		for line := range strings.Lines(string(data)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	}, nil)
	return pids, err
}

// Thaw resumes the processes of the named cgroup and of the cgroups below it,
// if the freezer of cgroup v1 has frozen them. The kernel does not kill frozen
// processes.
func Thaw(name string) error {
	all, err := Mounted()
	if err != nil {
		return err
	}
	for _, h := range all {
		if h.V2 || !h.Has("freezer") {
			continue
		}
		err := walk(filepath.Join(h.Dir, name), func(group *os.File) error {
			fd, err := unix.Openat(int(group.Fd()), "freezer.state", unix.O_WRONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return skipGone(err)
			}
			_, err = unix.Write(fd, []byte("THAWED"))
			return errors.Join(skipGone(err), unix.Close(fd))
		}, nil)
		if err != nil {
			return fmt.Errorf("thaw cgroup %s: %w", name, err)
		}
	}
	return nil
}

// walk calls visit for the cgroup dir and each of its descendants, children
// before parents. After visiting a descendant, it calls leave, which may be
// nil, with the descendant's parent and name. Root in a machine may nest
// cgroups deeper than path lengths or open file limits allow, so walk keeps
// only one directory open.
func walk(dir string, visit func(group *os.File) error, leave func(parent *os.File, name string) error) error {
	type level struct {
		name     string
		children []string
	}
	group, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		return skipGone(err)
	}
	defer func() { _ = group.Close() }()
	enter := func(next *os.File) {
		_ = group.Close()
		group = next
	}
	stack := []level{{children: subgroups(group)}}
	for {
		top := &stack[len(stack)-1]
		if n := len(top.children); n > 0 {
			name := top.children[n-1]
			top.children = top.children[:n-1]
			child, err := openDir(int(group.Fd()), name)
			if err != nil {
				if err := skipGone(err); err != nil {
					return err
				}
				continue
			}
			enter(child)
			stack = append(stack, level{name, subgroups(child)})
			continue
		}
		if err := visit(group); err != nil {
			return err
		}
		if len(stack) == 1 {
			return nil
		}
		parent, err := openDir(int(group.Fd()), "..")
		if err != nil {
			return err
		}
		enter(parent)
		if leave != nil {
			if err := leave(parent, top.name); err != nil {
				return err
			}
		}
		stack = stack[:len(stack)-1]
	}
}

func openDir(at int, path string) (*os.File, error) {
	fd, err := unix.Openat(at, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// subgroups returns the names of the cgroups in a cgroup.
func subgroups(group *os.File) (names []string) {
	entries, _ := group.ReadDir(-1) // an error means that the cgroup was removed
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func readIn(dir *os.File, name string) ([]byte, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// skipGone turns two errors into nil: that a cgroup was removed, and that a
// cgroup is threaded. The processes of a threaded cgroup are listed in a
// parent.
func skipGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// Remove removes the named cgroup and the cgroups below it from every
// hierarchy. It waits until the kernel has released exited processes, or ctx
// ends.
func Remove(ctx context.Context, name string) error {
	all, err := Mounted()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := removeTree(ctx, filepath.Join(h.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func removeTree(ctx context.Context, dir string) error {
	remove := func(at int, path string) error {
		wait := poll.New(50 * time.Millisecond)
		for {
			err := unix.Unlinkat(at, path, unix.AT_REMOVEDIR)
			if err == nil || errors.Is(err, unix.ENOENT) {
				return nil
			}
			// The kernel counts an exited process until it is fully released.
			if !errors.Is(err, unix.EBUSY) {
				return &os.PathError{Op: "rmdir", Path: path, Err: err}
			}
			if stopped := wait.Pause(ctx); stopped != nil {
				return fmt.Errorf("rmdir %s: %w: %w", path, err, stopped)
			}
		}
	}
	visit := func(*os.File) error { return nil }
	leave := func(parent *os.File, name string) error { return remove(int(parent.Fd()), name) }
	if err := walk(dir, visit, leave); err != nil {
		return err
	}
	return remove(unix.AT_FDCWD, dir)
}
