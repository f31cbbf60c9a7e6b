package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine"
	"aloft/internal/control/tcpmem"
)

var (
	_ machine.Measured       = (*Machine)(nil)
	_ machine.SocketMeasured = (*Machine)(nil)
)

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

// SocketBytes implements [machine.SocketMeasured].
func (m *Machine) SocketBytes(ctx context.Context) (int64, error) { return tcpmem.Of(ctx, m.inside()) }

// DiskBytes implements [machine.Measured]. If the file system has a fixed
// number of inodes, each file counts as at least its share of the disk, so that
// the disk limit also catches a machine that uses up the inodes.
func (m *Machine) DiskBytes(ctx context.Context) (int64, error) {
	bytes, files, err := m.DiskUsage(ctx)
	if err != nil {
		return 0, err
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(m.dir, &disk); err == nil && disk.Files > 0 {
		share := int64(disk.Blocks) * disk.Bsize / int64(disk.Files)
		bytes = max(bytes, files*share)
	}
	return bytes, nil
}

// DiskUsage returns the disk usage of the machine's own files, without the
// layers below, and the number of their inodes.
func (m *Machine) DiskUsage(ctx context.Context) (bytes, inodes int64, err error) {
	c := count{seen: map[uint64]bool{}}
	for _, name := range []string{"upper", dockerData, memoryBeingSaved, memorySaved, memoryInUse} {
		if err := c.tree(ctx, m.path(name)); err != nil {
			return 0, 0, fmt.Errorf("measure machine %s: %w", m.id, err)
		}
	}
	if err := m.countHeld(ctx, &c); err != nil {
		return 0, 0, fmt.Errorf("measure machine %s: %w", m.id, err)
	}
	var log unix.Stat_t // every process in the machine can write to the log
	if unix.Lstat(m.path("log"), &log) == nil {
		c.add(&log)
	}
	return c.bytes, c.files, nil
}

// blockSize is the unit of st_blocks in bytes, on every file system.
const blockSize = 512

// count adds up the disk usage of files.
type count struct {
	bytes, files int64
	seen         map[uint64]bool // inodes already counted: files with several links, or held by several processes

	deep []unix.FileHandle // folders that are still to be walked
}

func (c *count) add(stat *unix.Stat_t) {
	c.bytes += stat.Blocks * blockSize
	c.files++
}

// tree adds the files below path. The machine may change the tree meanwhile and
// place links anywhere, so tree follows no links and ignores files that have
// disappeared.
func (c *count) tree(ctx context.Context, path string) error {
	root, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return ignoreMissing(err)
	}
	// open_by_handle_at needs a descriptor on the file system, so keep disk open.
	disk, err := unix.FcntlInt(uintptr(root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(root)
		return err
	}
	defer func() { _ = unix.Close(disk) }()
	c.deep = nil
	if err := c.dir(ctx, os.NewFile(uintptr(root), path)); err != nil {
		return err
	}
	for len(c.deep) > 0 {
		last := len(c.deep) - 1
		handle := c.deep[last]
		c.deep = c.deep[:last]
		fd, err := unix.OpenByHandleAt(disk, handle, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
		if errors.Is(err, unix.ESTALE) {
			continue // removed meanwhile
		}
		if err != nil {
			return fmt.Errorf("%w: open a deep folder: %w", machine.ErrTooManyFiles, err)
		}
		if err := c.dir(ctx, os.NewFile(uintptr(fd), path)); err != nil {
			return err
		}
	}
	return nil
}

// maxOpenDirs limits the depth of one walk, since every folder on the way down
// stays open. A machine can nest folders until its disk is full, although
// PATH_MAX allows no path to them: deeper folders are walked later, one by one.
const maxOpenDirs = 512

func (c *count) dir(ctx context.Context, dir *os.File) error {
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
			return err
		}
		top := &stack[len(stack)-1]
		if len(top.names) == 0 {
			top.names, _ = top.dir.Readdirnames(1024) // an error means the end or an unreadable folder
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
			if c.seen[stat.Ino] {
				continue
			}
			c.seen[stat.Ino] = true
		}
		c.add(&stat)
		if !folder {
			continue
		}
		if len(stack) == maxOpenDirs {
			if err := c.later(at, name); err != nil {
				return err
			}
			continue
		}
		if fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			stack = append(stack, level{dir: os.NewFile(uintptr(fd), name)})
		}
	}
	return nil
}

// later records a folder that will be walked later. If that fails, the
// machine's files cannot be counted, so later returns an error that stops the
// machine.
func (c *count) later(at int, name string) error {
	handle, _, err := unix.NameToHandleAt(at, name, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: name a deep folder: %w", machine.ErrTooManyFiles, err)
	}
	c.deep = append(c.deep, handle)
	return nil
}

// maxHeld limits how many descriptors and mappings of a machine's processes are
// inspected, so that an inspection takes about a second. Builds and browsers
// hold a tenth of this number.
const maxHeld = 1 << 20

// countHeld adds deleted files that processes of the machine still hold open or
// mapped. It returns [machine.ErrTooManyFiles] if they hold more than maxHeld.
func (m *Machine) countHeld(ctx context.Context, c *count) error {
	disks := map[uint64]bool{}
	// A machine's root is mounted either in the machine's own mount namespace,
	// or in the machine's folder on the host.
	rec, _ := m.record() // a machine without a record was never started
	for _, path := range []string{m.rootOfInit(), m.path("rootfs"), m.path("upper")} {
		var stat unix.Stat_t
		if path == "" || unix.Stat(path, &stat) != nil {
			continue
		}
		disks[stat.Dev] = true
		for _, name := range rec.Image.Views {
			if unix.Lstat(filepath.Join(path, name), &stat) == nil {
				disks[stat.Dev] = true
			}
		}
	}
	all, err := cgroup.Mounted()
	if err != nil {
		return err
	}
	pids := map[int]bool{}
	for _, h := range all {
		list, err := cgroup.Processes(filepath.Join(h.Dir, m.inside()))
		if err != nil {
			return err
		}
		for _, pid := range list {
			pids[pid] = true
		}
	}
	left := m.r.maxHeld
	for pid := range pids {
		for _, kind := range []string{"fd", "map_files"} {
			dir, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), kind))
			if err != nil {
				continue // the process has exited
			}
			left, err = c.addDeleted(ctx, dir, disks, left)
			_ = dir.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// addDeleted inspects dir, which is the fd or map_files folder of a process. It
// adds the deleted files on the given disks to which entries of dir link. It
// inspects at most left entries, and returns how many of left remain.
func (c *count) addDeleted(ctx context.Context, dir *os.File, disks map[uint64]bool, left int) (int, error) {
	target := make([]byte, unix.PathMax)
	for {
		if err := context.Cause(ctx); err != nil {
			return left, err
		}
		names, _ := dir.Readdirnames(1024) // an error means the end, or that the process exited
		if len(names) == 0 {
			return left, nil
		}
		if left -= len(names); left < 0 {
			return left, machine.ErrTooManyFiles
		}
		for _, name := range names {
			n, err := unix.Readlinkat(int(dir.Fd()), name, target)
			if err != nil || !bytes.HasSuffix(target[:n], []byte(" (deleted)")) {
				continue
			}
			var stat unix.Stat_t
			if unix.Fstatat(int(dir.Fd()), name, &stat, 0) != nil || stat.Nlink > 0 || stat.Mode&unix.S_IFMT != unix.S_IFREG || c.seen[stat.Ino] {
				continue
			}
			if !disks[stat.Dev] && !isOnOverlay(filepath.Join(dir.Name(), name)) {
				continue
			}
			c.seen[stat.Ino] = true
			c.add(&stat)
		}
	}
}

// isOnOverlay reports whether the open file to which path (a link in /proc)
// leads is on an overlay, such as the root of a container in the machine.
func isOnOverlay(path string) bool {
	var disk unix.Statfs_t
	return unix.Statfs(path, &disk) == nil && disk.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// ignoreMissing turns an error about a missing file or process into nil.
func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
