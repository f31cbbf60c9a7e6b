package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"aloft/internal/lockfile"

	"golang.org/x/sys/unix"
)

// A placeholder is an empty file or folder that is marked with the sticky bit. The bit
// has no effect on entries that only their owner can write. It is set at creation, so
// that a placeholder is never confused with a real file. If a killed process leaves a
// placeholder behind, the next sandbox recognizes and removes it.
const (
	placeholderDir  = unix.S_ISVTX | 0o755
	placeholderFile = unix.S_ISVTX | 0o644
)

func isPlaceholder(st *unix.Stat_t) bool {
	if st.Mode&unix.S_ISVTX == 0 || st.Mode&0o022 != 0 {
		return false
	}
	kind := st.Mode & unix.S_IFMT
	return kind == unix.S_IFDIR || kind == unix.S_IFREG && st.Size == 0
}

// heldPlaceholders are the placeholders in use, each with a shared lock. Several
// sandboxes may share a placeholder; the last sandbox removes it, because earlier
// removal would end the protection of its path.
type heldPlaceholders []heldPlaceholder

type heldPlaceholder struct {
	path string
	lock *os.File
}

// errMoved says that the files changed while a plan was made.
var errMoved = errors.New("other processes are changing the protected files")

// holdPlaceholders creates the plan's placeholders, and locks those that exist already.
// It returns errMoved if an existing placeholder was removed meanwhile; the caller must
// then plan again.
func holdPlaceholders(l Layout) (heldPlaceholders, error) {
	var h heldPlaceholders
	for _, p := range l.Placeholders {
		if err := makePlaceholder(p); err != nil {
			h.release()
			if errors.Is(err, unix.ENOENT) { // another sandbox has removed its placeholder for the folder
				return nil, errMoved
			}
			return nil, fmt.Errorf("protect %s: %w", p.Path, err)
		}
		if err := h.take(p.Path); err != nil {
			h.release()
			return nil, err
		}
	}
	for _, m := range l.Mounts {
		if m.Fleeting || h.has(m.Path) {
			continue
		}
		var st unix.Stat_t
		err := unix.Lstat(m.Path, &st)
		if err == nil && isPlaceholder(&st) {
			err = h.take(m.Path)
		}
		if err != nil { // the placeholder existed when the plan was made
			h.release()
			return nil, errMoved
		}
	}
	return h, nil
}

func makePlaceholder(p Placeholder) error {
	var err error
	if p.Kind == Dir {
		err = unix.Mkdir(p.Path, placeholderDir)
	} else {
		var fd int
		if fd, err = unix.Open(p.Path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, placeholderFile); err == nil {
			err = unix.Close(fd)
		}
	}
	if err == unix.EEXIST {
		return nil
	}
	return err
}

func (h *heldPlaceholders) take(name string) error {
	lock, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return errMoved
	}
	// Another sandbox may be removing the placeholder, or have removed it.
	if lockfile.Shared(lock) != nil || !lockfile.IsAt(lock, name) {
		_ = lock.Close()
		return errMoved
	}
	*h = append(*h, heldPlaceholder{name, lock})
	return nil
}

func (h heldPlaceholders) has(name string) bool {
	return slices.ContainsFunc(h, func(s heldPlaceholder) bool { return s.path == name })
}

// release unlocks the placeholders, children first. It removes those that no other
// sandbox uses and that are still empty.
func (h heldPlaceholders) release() {
	slices.SortFunc(h, func(a, b heldPlaceholder) int { return strings.Compare(b.path, a.path) })
	for _, s := range h {
		if lockfile.Exclusive(s.lock, 0) == nil {
			s.remove()
		}
		_ = s.lock.Close()
	}
}

// remove removes a placeholder, unless its path names another file by now. It keeps a
// folder that is no longer empty, and clears the folder's mark.
func (s heldPlaceholder) remove() {
	var now unix.Stat_t
	if unix.Lstat(s.path, &now) != nil || !lockfile.IsAt(s.lock, s.path) || !isPlaceholder(&now) {
		return
	}
	if now.Mode&unix.S_IFMT != unix.S_IFDIR {
		_ = unix.Unlink(s.path)
	} else if unix.Rmdir(s.path) == unix.ENOTEMPTY {
		_ = unix.Fchmod(int(s.lock.Fd()), now.Mode&0o777)
	}
}

// lateNames returns the names that match the plan's late patterns now.
func lateNames(patterns []string) map[string]bool {
	found := map[string]bool{}
	for _, p := range patterns {
		dir, last := filepath.Split(p)
		for _, name := range HostTree.Names(filepath.Clean(dir)) {
			if ok, err := filepath.Match(last, strings.ToLower(name)); ok && err == nil {
				found[dir+name] = true
			}
		}
	}
	return found
}

// setAside renames files that have appeared under a protected name, and returns
// their names.
func setAside(patterns []string, before map[string]bool) []string {
	var moved []string
	for name := range lateNames(patterns) {
		if before[name] {
			continue
		}
		to := name + ".set-aside"
		for i := 1; ; i++ {
			if _, err := os.Lstat(to); err != nil {
				break
			}
			to = name + ".set-aside-" + strconv.Itoa(i)
		}
		if os.Rename(name, to) == nil {
			moved = append(moved, name)
		}
	}
	slices.Sort(moved)
	return moved
}
