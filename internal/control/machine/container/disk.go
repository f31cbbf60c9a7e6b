package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
)

var _ machine.Measured = (*Machine)(nil)

// Running implements [machine.Measured].
func (m *Machine) Running() bool { return m.running() }

// Stop implements [machine.Measured].
func (m *Machine) Stop(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if errors.Is(err, machine.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = m.kill(ctx)
		unlock()
	}
	if err != nil {
		return fmt.Errorf("stop machine %s: %w", m.id, err)
	}
	return nil
}

// DiskBytes implements [machine.Measured].
func (m *Machine) DiskBytes(ctx context.Context) (int64, error) {
	seen := map[uint64]bool{} // files with several names, and those that several processes hold
	used, err := treeBytes(ctx, m.path("upper"), seen)
	if err != nil {
		return 0, fmt.Errorf("measure machine %s: %w", m.id, err)
	}
	held, err := m.heldBytes(ctx, seen)
	if err != nil {
		return 0, fmt.Errorf("measure machine %s: %w", m.id, err)
	}
	for _, name := range []string{memoryBeingSaved, memorySaved, memoryInUse} {
		saved, err := treeBytes(ctx, m.path(name), seen)
		if err != nil {
			return 0, fmt.Errorf("measure machine %s: %w", m.id, err)
		}
		used += saved
	}
	return used + held, nil
}

// blockSize is the unit of st_blocks, whatever the file system.
const blockSize = 512

// treeBytes is what lies below path. The machine may change it meanwhile, and
// put links anywhere: none is followed, and what is gone is nothing.
func treeBytes(ctx context.Context, path string, seen map[uint64]bool) (int64, error) {
	root, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, gone(err)
	}
	return dirBytes(ctx, os.NewFile(uintptr(root), path), seen)
}

// maxOpenDirs bounds how deep a tree is read, since each folder on the way down
// is held open. What lies deeper is not counted; no path is so long.
const maxOpenDirs = 4096

func dirBytes(ctx context.Context, dir *os.File, seen map[uint64]bool) (sum int64, err error) {
	type level struct {
		dir   *os.File
		names []string
	}
	stack := []level{{dir: dir}}
	defer func() {
		for _, l := range stack {
			_ = l.dir.Close()
		}
	}()
	for len(stack) > 0 {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		top := &stack[len(stack)-1]
		if len(top.names) == 0 {
			top.names, _ = top.dir.Readdirnames(1024) // the end, or what cannot be read any more
			if len(top.names) == 0 {
				_ = top.dir.Close()
				stack = stack[:len(stack)-1]
				continue
			}
		}
		name := top.names[0]
		top.names = top.names[1:]
		var stat unix.Stat_t
		at := int(top.dir.Fd())
		if unix.Fstatat(at, name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		folder := stat.Mode&unix.S_IFMT == unix.S_IFDIR
		if !folder && stat.Nlink > 1 {
			if seen[stat.Ino] {
				continue
			}
			seen[stat.Ino] = true
		}
		sum += stat.Blocks * blockSize
		if !folder || len(stack) == maxOpenDirs {
			continue
		}
		if fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			stack = append(stack, level{dir: os.NewFile(uintptr(fd), name)})
		}
	}
	return sum, nil
}

// heldBytes is what files take that have no name any more, and that processes
// of the machine hold open or mapped.
func (m *Machine) heldBytes(ctx context.Context, seen map[uint64]bool) (sum int64, err error) {
	disks := map[uint64]bool{}
	for _, name := range []string{"rootfs", "upper"} {
		var stat unix.Stat_t
		if unix.Stat(m.path(name), &stat) == nil {
			disks[stat.Dev] = true
		}
	}
	all, err := mountedHierarchies()
	if err != nil {
		return 0, err
	}
	pids := map[int]bool{}
	for _, h := range all {
		list, err := cgroupProcesses(filepath.Join(h.dir, m.inside()))
		if err != nil {
			return 0, err
		}
		for _, pid := range list {
			pids[pid] = true
		}
	}
	for pid := range pids {
		for _, kind := range []string{"fd", "map_files"} {
			if err := context.Cause(ctx); err != nil {
				return 0, err
			}
			dir := filepath.Join("/proc", strconv.Itoa(pid), kind)
			f, err := os.Open(dir)
			if err != nil {
				continue // the process is gone
			}
			names, _ := f.Readdirnames(-1)
			_ = f.Close()
			for _, name := range names {
				link := filepath.Join(dir, name)
				if target, err := os.Readlink(link); err != nil || !strings.HasSuffix(target, " (deleted)") {
					continue
				}
				var stat unix.Stat_t
				if unix.Stat(link, &stat) != nil || stat.Nlink > 0 || stat.Mode&unix.S_IFMT != unix.S_IFREG || !disks[stat.Dev] || seen[stat.Ino] {
					continue
				}
				seen[stat.Ino] = true
				sum += stat.Blocks * blockSize
			}
		}
	}
	return sum, nil
}

// gone makes what is not there any more no error.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
