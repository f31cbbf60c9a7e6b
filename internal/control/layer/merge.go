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

	"aloft/internal/control/image/unpack"
	"aloft/internal/control/trash"
)

// deep is the maximum depth of a stack. If a stack is deeper, the layers below
// its top are merged. A mount can hold 200 layers in all, and every path lookup
// checks each layer.
const deep = 32

// Tend does maintenance: it removes unneeded layers and merges deep stacks. If
// a stack cannot be merged, Tend continues with the others.
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
			continue // a layer of the stack was just deleted, or the stack is not deep
		}
		if err := s.flatten(ctx, l.ID); err != nil {
			if ctx.Err() != nil {
				return err
			}
			failed = append(failed, fmt.Errorf("merge the layers below %s: %w", l.ID, err))
		}
	}
	return errors.Join(failed...)
}

// flatten merges the layers below id into one layer, which becomes the parent
// of id. Its files are hard links to the old layers' files and use no extra
// space. Machines created from the old layers keep those layers.
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
			return err // another process has merged it meanwhile
		}
		if err := s.moveInto(below, merged); err != nil {
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

// merge applies the tree of a layer to lower, the tree of the layer below.
// Afterwards lower has the same effect as both trees.
func merge(ctx context.Context, tree, lower string) error {
	var dirs []string // directories whose times are set last, because writing into a directory changes its time
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
		isDir, err := mergeOne(path, filepath.Join(lower, name))
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
		if err := copyTime(filepath.Join(tree, name), filepath.Join(lower, name)); err != nil {
			return err
		}
	}
	return nil
}

func mergeOne(path, lower string) (isDir bool, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, errors.New("no owner")
	}
	old, err := os.Lstat(lower)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if !info.IsDir() {
		if old != nil {
			if err := trash.RemoveAll(lower); err != nil {
				return false, err
			}
		}
		if isWhiteout(st) {
			return false, putWhiteout(lower)
		}
		return false, os.Link(path, lower)
	}
	// A directory hides the lower file of the same path if that is not a
	// directory, or if the upper directory is marked opaque.
	opaque, err := isOpaque(path)
	if err != nil {
		return true, err
	}
	hides := opaque || old != nil && !old.IsDir()
	if old != nil && hides {
		if err := removeBut(lower, old); err != nil {
			return true, err
		}
		old = nil
	}
	if old == nil {
		if err := os.Mkdir(lower, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return true, err
		}
	}
	if err := replaceAttributes(path, lower); err != nil {
		return true, err
	}
	if hides {
		return true, unix.Lsetxattr(lower, opaqueAttr, []byte("y"), 0)
	}
	return true, nil
}

// putWhiteout makes path a whiteout, which deletes the name in lower layers. It
// marks the directory as having existed below (see [unpack.OriginAttr]), since
// an overlay would otherwise show its whiteouts as files.
func putWhiteout(path string) error {
	if err := unix.Mknod(path, unix.S_IFCHR, 0); err != nil {
		return &os.PathError{Op: "mknod", Path: path, Err: err}
	}
	return unix.Lsetxattr(filepath.Dir(path), unpack.OriginAttr, nil, 0)
}

// removeBut removes the file or directory at path. For the root directory, it
// removes only the content.
func removeBut(path string, old fs.FileInfo) error {
	if !old.IsDir() {
		return os.Remove(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := trash.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// replaceAttributes copies the owner, mode and attributes of from to the
// directory to, and removes other attributes. The overlay's private attributes
// stay.
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
