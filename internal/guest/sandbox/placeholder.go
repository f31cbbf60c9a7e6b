package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A placeholder is empty and has this time of change, so that one that was left
// behind (by kill -9) is known, and the next sandbox there takes it away.
var placeholderTime = time.Unix(1, 414213562)

// held are placeholders in use, each with a shared lock: several sandboxes may
// stand on one, and the last removes it. Removing one that is in use would take
// the protection away with it.
type held struct{ files []*os.File }

// errMoved says that the files changed while they were looked at.
var errMoved = errors.New("the protected files are being changed by others")

// hold makes the plan's placeholders, and takes hold of those that others made.
// It is errMoved if one vanished on the way: plan again.
func hold(l Layout) (held, error) {
	var h held
	for _, p := range l.Placeholders {
		if err := makePlaceholder(p); err != nil {
			h.release()
			return held{}, fmt.Errorf("protect %s: %w", p.Path, err)
		}
		if err := h.take(p.Path); err != nil {
			h.release()
			return held{}, err
		}
	}
	for _, m := range l.Mounts {
		st, err := os.Lstat(m.Path)
		if err == nil && isPlaceholder(st) && !h.has(m.Path) {
			err = h.take(m.Path)
		}
		if err != nil { // the plan saw it: somebody has taken it away
			h.release()
			return held{}, errMoved
		}
	}
	return h, nil
}

// makePlaceholder makes one under another name, and gives it its own when it has
// its mark: nobody sees it without, and takes it for somebody's own.
func makePlaceholder(p Placeholder) error {
	if _, err := os.Lstat(p.Path); err == nil {
		return nil
	}
	made, err := os.MkdirTemp(filepath.Dir(p.Path), ".aloft-placeholder-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(made) }() // gone, if all went well
	mode := os.FileMode(0o755)
	if p.Kind != Dir {
		if err := os.Remove(made); err != nil {
			return err
		}
		f, err := os.OpenFile(made, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_ = f.Close()
		mode = 0o644
	}
	if err := errors.Join(os.Chmod(made, mode), os.Chtimes(made, time.Time{}, placeholderTime)); err != nil {
		return err
	}
	err = unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, p.Path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

func isPlaceholder(st os.FileInfo) bool {
	return st.ModTime().Equal(placeholderTime) && (st.IsDir() || st.Mode().IsRegular() && st.Size() == 0)
}

func (h *held) take(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return errMoved
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return errMoved // somebody is removing it
	}
	if !linked(f) {
		_ = f.Close()
		return errMoved
	}
	h.files = append(h.files, f)
	return nil
}

// linked reports whether a file is still what its name leads to.
func linked(f *os.File) bool {
	now, err := os.Lstat(f.Name())
	if err != nil {
		return false
	}
	st, err := f.Stat()
	return err == nil && os.SameFile(now, st)
}

func (h *held) has(name string) bool {
	return slices.ContainsFunc(h.files, func(f *os.File) bool { return f.Name() == name })
}

// release lets go of the placeholders, and removes those that nobody else holds
// and nobody has put to use. It goes from the leaves to the root.
func (h *held) release() {
	slices.SortFunc(h.files, func(a, b *os.File) int { return strings.Compare(b.Name(), a.Name()) })
	for _, f := range h.files {
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && linked(f) {
			if st, err := f.Stat(); err == nil && (isPlaceholder(st) || st.IsDir()) {
				_ = os.Remove(f.Name()) // a folder that is not empty stays
			}
		}
		_ = f.Close()
	}
	h.files = nil
}

// lateNames are the names that the plan's late patterns match now.
func lateNames(patterns []string) map[string]bool {
	found := map[string]bool{}
	for _, p := range patterns {
		names, err := filepath.Glob(p)
		if err != nil {
			continue
		}
		for _, n := range names {
			found[n] = true
		}
	}
	return found
}

// setAside renames what has appeared under a protected name, and returns it.
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
