package layer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/fault"
)

// maxStack is the maximum number of layers in a stack. A mount can hold these,
// the image's layers and one more.
const maxStack = 128

// Freeze turns upper, the upper directory of an unmounted overlay, into the new
// layer l. It copies no files: upper is flushed and renamed. The named claim is
// extended to l, so that the caller can put a new upper layer on top of it even
// if l is deleted.
func (s *Store) Freeze(l Layer, upper, claim string) error {
	if !ValidID(l.ID) {
		return fault.Invalid("layer %q: an id is snapshot-YYYYMMDD-<uuid> or bld-YYYYMMDD-<uuid>", l.ID)
	}
	if !IsFork(l.ID) { // a fork ends with its machine, so it need not survive a power failure
		if err := syncTree(upper); err != nil {
			return fmt.Errorf("freeze %s: %w", l.ID, err)
		}
	}
	err := s.locked(func() error {
		if _, err := os.Lstat(s.tree(l.ID)); err == nil {
			return fault.Conflict("layer %s already exists", l.ID).Named("snapshot_exists")
		}
		if l.Parent != "" {
			below, err := s.Stack(l.Parent)
			if err != nil {
				return err
			}
			if len(below) >= maxStack {
				return fault.Conflict("%s is already based on %d layers, the maximum", l.Parent, len(below)-1).
					Named("snapshot_too_deep").Hint("wait until the server has merged them, which it does in the background")
			}
		}
		if l.Created.IsZero() {
			l.Created = time.Now().UTC()
		}
		if claim != "" {
			if err := s.extend(claim, l.ID); err != nil {
				return err
			}
		}
		s.step("freeze: claimed")
		if err := s.writeMeta(l); err != nil {
			return err
		}
		s.step("freeze: described")
		if err := os.Rename(upper, s.tree(l.ID)); err != nil {
			return errors.Join(err, os.Remove(s.meta(l.ID)))
		}
		s.step("freeze: moved")
		return syncDir(s.path("tree", ""))
	})
	if err != nil {
		return fmt.Errorf("freeze %s: %w", l.ID, err)
	}
	return nil
}

// KeepMemory stores a machine's memory with the layer id, which is the
// machine's disk, until the layer is deleted. It moves the files of the folder
// from; nothing may write to them any more.
func (s *Store) KeepMemory(id, from string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("memory of %s: %w", id, err)
	}
	err = s.locked(func() error {
		half := s.path("memory", id+".new")
		if err := os.RemoveAll(half); err != nil {
			return err
		}
		if err := os.Mkdir(half, 0o700); err != nil {
			return err
		}
		for _, f := range files {
			if err := os.Link(filepath.Join(from, f.Name()), filepath.Join(half, f.Name())); err != nil {
				return err
			}
		}
		return os.Rename(half, s.path("memory", id))
	})
	if err != nil {
		return fmt.Errorf("memory of %s: %w", id, err)
	}
	return nil
}

// Memory returns the folder that KeepMemory saved for the layer, or "" if there
// is none.
func (s *Store) Memory(id string) string {
	path := s.path("memory", id)
	if _, err := os.Lstat(path); id == "" || err != nil {
		return ""
	}
	return path
}

// Has reports whether the layer exists, kept or not.
func (s *Store) Has(id string) bool {
	_, err := s.Layer(id)
	return err == nil
}

// Top creates the directory path as an upper layer on top of the layer id. The
// directory gets the owner, mode, attributes and time of the machine's root. If
// id is "", the directory belongs to root, with mode 0755.
func (s *Store) Top(id, path string) error {
	err := func() error {
		if id == "" {
			return os.Mkdir(path, 0o755)
		}
		return NewFolder(s.tree(id), path)
	}()
	if err != nil {
		return fmt.Errorf("layer above %s: %w", id, err)
	}
	return nil
}

// NewFolder creates the directory path with the owner, mode, attributes and
// time of the directory over which it will be mounted.
func NewFolder(above, path string) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	return copyAttributes(above, path)
}

// copyAttributes copies a directory's attributes to another directory, except those
// private to the overlay.
func copyAttributes(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: no owner", from)
	}
	if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if err := os.Chmod(to, info.Mode()&^fs.ModeType); err != nil {
		return err
	}
	attrs, err := xattrs(from)
	if err != nil {
		return err
	}
	for name, value := range attrs {
		if strings.HasPrefix(name, overlayAttrs) {
			continue
		}
		if err := unix.Lsetxattr(to, name, value, 0); err != nil {
			return &os.PathError{Op: "setxattr", Path: to, Err: err}
		}
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// Attributes that an overlay sets in its upper layer.
const (
	overlayAttrs = "trusted.overlay."
	opaqueAttr   = "trusted.overlay.opaque"
)

// xattrs returns the extended attributes of a file, without following links.
func xattrs(path string) (map[string][]byte, error) {
	names, err := xattr(func(b []byte) (int, error) { return unix.Llistxattr(path, b) })
	if err != nil || len(names) == 0 {
		if errors.Is(err, unix.ENOTSUP) {
			err = nil
		}
		return nil, err
	}
	out := map[string][]byte{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		value, err := xattr(func(b []byte) (int, error) { return unix.Lgetxattr(path, name, b) })
		if err != nil {
			return nil, &os.PathError{Op: "getxattr " + name, Path: path, Err: err}
		}
		out[name] = value
	}
	return out, nil
}

// xattr calls get with a sufficiently large buffer.
func xattr(get func([]byte) (int, error)) ([]byte, error) {
	n, err := get(nil)
	if err != nil || n == 0 {
		return nil, err
	}
	b := make([]byte, n)
	n, err = get(b)
	return b[:max(n, 0)], err
}
