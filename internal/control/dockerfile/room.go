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

// An UnderWay is a build that goes on, as far as it takes room on the disk. Its
// methods are safe for concurrent use.
type UnderWay struct {
	id    string
	dirs  []string // of the engine, and of the build
	stop  context.CancelCauseFunc
	mu    sync.Mutex
	began int64 // bytes, when they were first counted
	seen  bool
}

// ID names the build among those under way.
func (u *UnderWay) ID() string { return u.id }

// Running is true: a build that has ended is not under way.
func (u *UnderWay) Running() bool { return true }

// DiskBytes returns how many bytes there are more of the disk in use, by the
// engine and for this build, than when they were first counted. What other builds
// of the same engine write meanwhile is among them: they share what is kept.
func (u *UnderWay) DiskBytes(ctx context.Context) (int64, error) {
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
	if !u.seen {
		u.seen, u.began = true, sum
	}
	return max(0, sum-u.began), nil
}

// UnderWay returns the builds that go on.
func (b *Builder) UnderWay() []*UnderWay {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*UnderWay, 0, len(b.underWay))
	for _, u := range b.underWay {
		all = append(all, u)
	}
	return all
}

// Stop ends a build for the room that it takes. ours is false where none of that
// ID goes on.
func (b *Builder) Stop(id string, why error) (ours bool) {
	b.mu.Lock()
	u := b.underWay[id]
	b.mu.Unlock()
	if u == nil {
		return false
	}
	u.stop(fault.Exhausted("the build of the Dockerfile was ended for the room that it took: %s", fault.Of(why).Message).Named("disk_limit").
		Hint("have the Dockerfile write less, or raise machine.disk_bytes, which holds for builds too"))
	return true
}

// begin has a build be under way until done, which is over when ctx is.
func (b *Builder) begin(ctx context.Context, work string) (_ context.Context, done func()) {
	ctx, stop := context.WithCancelCause(ctx)
	u := &UnderWay{id: filepath.Base(work), dirs: append([]string{filepath.Join(work, "work"), filepath.Join(work, "context"), b.basesDir()}, b.Engine.Keeps()...), stop: stop}
	_, _ = u.DiskBytes(ctx) // what it began with; if that cannot be had now, the next time it is counted
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.underWay == nil {
		b.underWay = map[string]*UnderWay{}
	}
	b.underWay[u.id] = u
	return ctx, func() {
		b.mu.Lock()
		delete(b.underWay, u.id)
		b.mu.Unlock()
		stop(nil)
	}
}

// file is one, by whatever names.
type file struct{ dev, ino uint64 }

// blockSize is the unit of st_blocks, whatever the file system.
const blockSize = 512

// treeBytes is what lies below dir on its own file system. Steps change it
// meanwhile: what is gone is nothing, and no link is followed.
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
			return nil //nolint:nilerr // it is gone
		}
		if stat.Dev != top.Dev && d.IsDir() {
			return fs.SkipDir // what a step sees, which is counted where it lies
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

// heldBytes is what files take that have no name any more, and that processes of
// a build's cgroup hold open.
func heldBytes(cgroup string, files map[file]bool) (sum int64) {
	procs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
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

// inCgroup reports whether a process with these cgroups is in the named one, or
// below it.
func inCgroup(groups, name string) bool {
	for line := range strings.Lines(groups) {
		if at := strings.SplitN(strings.TrimSpace(line), ":", 3); len(at) == 3 && strings.HasPrefix(at[2]+"/", "/"+name+"/") {
			return true
		}
	}
	return false
}
