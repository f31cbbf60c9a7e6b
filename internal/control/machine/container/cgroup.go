package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A hierarchy is one mounted cgroup tree. A host with cgroup v2 has one; a host
// with v1 has one per controller; a hybrid host has both kinds.
type hierarchy struct {
	dir         string
	v2          bool
	controllers []string
}

// hierarchies returns the cgroup trees listed in the text of a mountinfo file.
func hierarchies(mountinfo string) []hierarchy {
	var out []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		switch right[0] {
		case "cgroup2":
			out = append(out, hierarchy{dir: left[4], v2: true})
		case "cgroup":
			out = append(out, hierarchy{dir: left[4], controllers: strings.Split(right[2], ",")})
		}
	}
	return out
}

func mountedHierarchies() ([]hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return hierarchies(string(data)), nil
}

// killCgroup kills the processes left in the named cgroup after PID 1 and its
// namespace are gone, such as a runtime's half-started child or gVisor's
// helpers.
func killCgroup(ctx context.Context, name string) error {
	all, err := mountedHierarchies()
	if err != nil {
		return err
	}
	wait := newBackoff(20 * time.Millisecond)
	for {
		left := 0
		for _, h := range all {
			pids, err := cgroupProcesses(filepath.Join(h.dir, name))
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
		if err := wait.pause(ctx); err != nil {
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
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may already have exited; the caller counts again
}

// cgroupProcesses lists the processes of a cgroup and its descendants.
func cgroupProcesses(dir string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return skipGone(err)
		}
		if !d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return skipGone(err)
		}
		for line := range strings.Lines(string(data)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids, err
}

func skipGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// removeCgroups removes the named cgroup and its descendants from every
// hierarchy.
func removeCgroups(ctx context.Context, name string) error {
	all, err := mountedHierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if err := removeCgroup(ctx, filepath.Join(h.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func removeCgroup(ctx context.Context, dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return skipGone(err)
		}
		if d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Reverse(dirs) // children before parents
	for _, d := range dirs {
		wait := newBackoff(50 * time.Millisecond)
		for {
			err := unix.Rmdir(d)
			if err == nil || errors.Is(err, unix.ENOENT) {
				break
			}
			// The kernel counts an exited process until it is fully released.
			if !errors.Is(err, unix.EBUSY) {
				return &os.PathError{Op: "rmdir", Path: d, Err: err}
			}
			if stopped := wait.pause(ctx); stopped != nil {
				return fmt.Errorf("rmdir %s: %w: %w", d, err, stopped)
			}
		}
	}
	return nil
}
