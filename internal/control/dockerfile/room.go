package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"aloft/internal/fault"
)

// A RunningBuild is a running build whose disk usage can be measured. Its
// methods are safe for concurrent use.
type RunningBuild struct {
	id       string
	dirs     []string // folders of the engine and of the build
	stop     context.CancelCauseFunc
	mu       sync.Mutex
	began    int64 // bytes at the first measurement
	measured bool
}

// ID returns the id of the build.
func (u *RunningBuild) ID() string { return u.id }

// Running returns true: a build that has ended is not a RunningBuild.
func (u *RunningBuild) Running() bool { return true }

// DiskBytes returns by how many bytes the disk usage of the engine and this
// build has grown since the first measurement. This includes the writes of
// concurrent builds with the same engine, since they share its folders.
func (u *RunningBuild) DiskBytes(ctx context.Context) (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	sum, files := int64(0), map[file]bool{}
	for _, dir := range u.dirs {
		n, err := treeBytes(ctx, dir, files)
		if err != nil {
			return 0, fmt.Errorf("measure the build of a Dockerfile: %w", err)
		}
		sum += n
	}
	sum += heldBytes(cellName(u.id), files)
	if !u.measured {
		u.measured, u.began = true, sum
	}
	return max(0, sum-u.began), nil
}

// RunningBuilds returns the running builds.
func (b *Builder) RunningBuilds() []*RunningBuild {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*RunningBuild, 0, len(b.underWay))
	for _, u := range b.underWay {
		all = append(all, u)
	}
	return all
}

// Stop ends a build because of its disk usage. ours is false if no build with
// that id is running.
func (b *Builder) Stop(id string, why error) (ours bool) {
	b.mu.Lock()
	u := b.underWay[id]
	b.mu.Unlock()
	if u == nil {
		return false
	}
	u.stop(fault.Exhausted("the build of the Dockerfile was stopped because of its disk usage: %s", fault.Of(why).Message).Named("disk_limit").
		Hint("make the Dockerfile write less, or raise machine.disk_bytes, which also limits builds"))
	return true
}

// begin registers a running build until done is called. The returned context
// ends when the build is stopped.
func (b *Builder) begin(ctx context.Context, work string) (_ context.Context, done func()) {
	ctx, stop := context.WithCancelCause(ctx)
	u := &RunningBuild{id: filepath.Base(work), dirs: append([]string{filepath.Join(work, "work"), filepath.Join(work, "context"), b.basesDir()}, b.Engine.Keeps()...), stop: stop}
	_, _ = u.DiskBytes(ctx) // record the initial usage; if this fails, the next measurement records it
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.underWay == nil {
		b.underWay = map[string]*RunningBuild{}
	}
	b.underWay[u.id] = u
	return ctx, func() {
		b.mu.Lock()
		delete(b.underWay, u.id)
		b.mu.Unlock()
		stop(nil)
	}
}

// file identifies a file, regardless of its names.
type file struct{ dev, ino uint64 }

// blockSize is the unit of st_blocks in bytes, on every file system.
const blockSize = 512

// treeBytes returns the disk usage below dir, without other file systems.
// Running steps change the tree, so treeBytes ignores files that have
// disappeared. It follows no links.
func treeBytes(ctx context.Context, dir string, files map[file]bool) (sum int64, err error) {
	var top unix.Stat_t
	if err := unix.Lstat(dir, &top); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		return 0, err
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var stat unix.Stat_t
		if err != nil || unix.Lstat(path, &stat) != nil {
			return nil //nolint:nilerr // the file is gone
		}
		if stat.Dev != top.Dev && d.IsDir() {
			return fs.SkipDir // a mount that a step sees; it is counted at its source
		}
		if key := (file{stat.Dev, stat.Ino}); !d.IsDir() && stat.Nlink > 1 {
			if files[key] {
				return nil
			}
			files[key] = true
		}
		sum += stat.Blocks * blockSize
		return nil
	})
	return sum, err
}

// heldBytes returns the disk usage of deleted files that processes of a build's
// cgroup hold open.
func heldBytes(cgroup string, files map[file]bool) (sum int64) {
	procs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, proc := range procs {
		groups, err := os.ReadFile(filepath.Join(proc, "cgroup"))
		if err != nil || !inCgroup(string(groups), cgroup) {
			continue
		}
		fds, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
		for _, fd := range fds {
			var stat unix.Stat_t
			if unix.Stat(fd, &stat) != nil || stat.Nlink != 0 || stat.Mode&unix.S_IFMT != unix.S_IFREG {
				continue
			}
			if key := (file{stat.Dev, stat.Ino}); !files[key] {
				files[key] = true
				sum += stat.Blocks * blockSize
			}
		}
	}
	return sum
}

// inCgroup reports whether a process with the given /proc/PID/cgroup is in the
// named cgroup or below it.
func inCgroup(groups, name string) bool {
	for line := range strings.Lines(groups) {
		if at := strings.SplitN(strings.TrimSpace(line), ":", 3); len(at) == 3 && strings.HasPrefix(at[2]+"/", "/"+name+"/") {
			return true
		}
	}
	return false
}
