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

// maxStack is how many layers a stack may have, so that a mount takes them, the
// image's and one more.
const maxStack = 128

// Freeze makes the directory upper, of an overlay that is not mounted, the
// layer l, which must be new. Its files stay where they are: upper itself is
// moved, by one rename, and after that the layer is there. The claim of that
// name gets l too, so that whoever wrote upper can put another above it,
// whatever becomes of l.
func (s *Store) Freeze(l Layer, upper, claim string) error {
	if !ValidID(l.ID) {
		return fault.Invalid("layer %q: an id is snapshot-YYYYMMDD-<uuid> or bld-YYYYMMDD-<uuid>", l.ID)
	}
	if !IsFork(l.ID) { // which lasts no longer than the machine that it is of, whose disk is as it is
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
				return fault.Conflict("%s stands on %d layers, and no more can be put above them", l.Parent, len(below)-1).
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

// KeepMemory keeps what is in the folder from, the memory of a machine whose disk
// is the layer id, beside the layer until that is given up. The files are not
// copied, and must not be written to any more.
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

// Memory is the folder of what KeepMemory has kept beside the layer; "" where
// there is none.
func (s *Store) Memory(id string) string {
	path := s.path("memory", id)
	if _, err := os.Lstat(path); id == "" || err != nil {
		return ""
	}
	return path
}

// Has reports whether the layer is there, kept or not.
func (s *Store) Has(id string) bool {
	_, err := s.Layer(id)
	return err == nil
}

// Top makes the directory path, to be the upper layer above the layer id: the
// root of the machine keeps the owner, mode, attributes and time that it has
// there. Without an id it is root's, mode 0755.
func (s *Store) Top(id, path string) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return fmt.Errorf("layer above %s: %w", id, err)
	}
	if id == "" {
		return nil
	}
	if err := copyAttributes(s.tree(id), path); err != nil {
		return fmt.Errorf("layer above %s: %w", id, err)
	}
	return nil
}

// copyAttributes gives the directory to what the directory from has, but for
// what an overlay notes for itself.
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

// What an overlay notes in its upper layer.
const (
	overlayAttrs = "trusted.overlay."
	opaqueAttr   = "trusted.overlay.opaque"
)

// xattrs reads the extended attributes of a file, following no link.
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

// xattr calls get with a buffer that is large enough.
func xattr(get func([]byte) (int, error)) ([]byte, error) {
	n, err := get(nil)
	if err != nil || n == 0 {
		return nil, err
	}
	b := make([]byte, n)
	n, err = get(b)
	return b[:max(n, 0)], err
}
