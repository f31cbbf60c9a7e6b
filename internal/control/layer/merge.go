package layer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/control/image"
)

// deep is how many layers a stack may have before those below its top are
// merged. A mount takes 200 in all, and every lookup of a name asks each.
const deep = 32

// Tend does what is not urgent: it removes what nobody needs, and merges stacks
// that have become deep. One that cannot be merged keeps no other from it.
func (s *Store) Tend(ctx context.Context) error {
	if err := s.Collect(); err != nil {
		return err
	}
	kept, err := s.List()
	if err != nil {
		return err
	}
	var failed []error
	for _, l := range kept {
		stack, err := s.Stack(l.ID)
		if err != nil || len(stack) <= deep {
			continue // a layer of it was given up just now, or it is well
		}
		if err := s.flatten(ctx, l.ID); err != nil {
			if ctx.Err() != nil {
				return err
			}
			failed = append(failed, fmt.Errorf("merge what %s stands on: %w", l.ID, err))
		}
	}
	return errors.Join(failed...)
}

// flatten merges the layers below id into one, on which it stands from then on.
// Files are hard links of the old ones: it takes no room. Machines that were
// made from the old layers keep them.
func (s *Store) flatten(ctx context.Context, id string) error {
	stack, unpin, err := s.pin(id)
	if err != nil {
		return err
	}
	defer unpin()
	if len(stack) < 3 {
		return nil
	}
	dir, done, err := s.workDir()
	if err != nil {
		return err
	}
	defer done()
	merged := filepath.Join(dir, "tree")
	if err := os.Mkdir(merged, 0o755); err != nil {
		return err
	}
	for _, l := range slices.Backward(stack[1:]) {
		if err := merge(ctx, s.tree(l.ID), merged); err != nil {
			return err
		}
	}
	if err := syncTree(merged); err != nil {
		return err
	}
	below := Layer{ID: NewID(flat), Image: stack[0].Image, Pinned: stack[0].Pinned, Created: stack[1].Created}
	err = s.locked(func() error {
		l, err := s.Layer(id)
		if err != nil || l.Parent != stack[1].ID {
			return err // another has done it
		}
		if err := s.put(below, merged); err != nil {
			return err
		}
		l.Parent = below.ID
		return s.writeMeta(l)
	})
	if err != nil {
		return err
	}
	return s.Collect()
}

// merge puts the tree of one layer over that of another, which it changes: into
// is what an overlay shows of both, in the form of a layer.
func merge(ctx context.Context, tree, into string) error {
	var dirs []string // whose time is set last: writing into a directory changes it
	err := filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		isDir, err := mergeOne(path, filepath.Join(into, name))
		if isDir {
			dirs = append(dirs, name)
		}
		if err != nil {
			return fmt.Errorf("merge %q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(dirs) {
		if err := copyTime(filepath.Join(tree, name), filepath.Join(into, name)); err != nil {
			return err
		}
	}
	return nil
}

func mergeOne(path, into string) (isDir bool, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, errors.New("no owner")
	}
	old, err := os.Lstat(into)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if !info.IsDir() {
		if old != nil {
			if err := os.RemoveAll(into); err != nil {
				return false, err
			}
		}
		if isWhiteout(st) {
			return false, putWhiteout(into)
		}
		return false, os.Link(path, into)
	}
	// A directory hides what is below it where that is none, or where it says so.
	opaque, err := isOpaque(path)
	if err != nil {
		return true, err
	}
	hides := opaque || old != nil && !old.IsDir()
	if old != nil && hides {
		if err := removeBut(into, old); err != nil {
			return true, err
		}
		old = nil
	}
	if old == nil {
		if err := os.Mkdir(into, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return true, err
		}
	}
	if err := replaceAttributes(path, into); err != nil {
		return true, err
	}
	if hides {
		return true, unix.Lsetxattr(into, opaqueAttr, []byte("y"), 0)
	}
	return true, nil
}

// putWhiteout deletes the name in the layers below. Where there is no such
// directory below, an overlay shows this one as it is, with its whiteouts,
// unless it is noted to have been below.
func putWhiteout(path string) error {
	if err := unix.Mknod(path, unix.S_IFCHR, 0); err != nil {
		return &os.PathError{Op: "mknod", Path: path, Err: err}
	}
	return unix.Lsetxattr(filepath.Dir(path), image.OriginAttr, nil, 0)
}

// removeBut removes what is at path, but leaves a root where it is.
func removeBut(path string, old fs.FileInfo) error {
	if !old.IsDir() {
		return os.Remove(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// replaceAttributes gives the directory to the owner, mode and attributes of
// from, and no others. What an overlay notes for itself stays.
func replaceAttributes(from, to string) error {
	attrs, err := xattrs(to)
	if err != nil {
		return err
	}
	for name := range attrs {
		if strings.HasPrefix(name, overlayAttrs) {
			continue
		}
		if err := unix.Lremovexattr(to, name); err != nil {
			return &os.PathError{Op: "removexattr " + name, Path: to, Err: err}
		}
	}
	return copyAttributes(from, to)
}

func copyTime(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

func isOpaque(path string) (bool, error) {
	attrs, err := xattrs(path)
	return string(attrs[opaqueAttr]) == "y", err
}
