package layer

import (
	"aloft/internal/fault"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Pin returns the layer id and the layers below it, topmost first. It prevents
// their removal until release is called or this process ends.
func (s *Store) Pin(id string) (stack []Layer, release func(), err error) { return s.pin(id) }

// Archive writes the files of a layer, without those of the layers below it, in
// the format of [Pack]. The same layer always gives the same bytes.
func (s *Store) Archive(ctx context.Context, w io.Writer, id string) error {
	if _, err := s.Layer(id); err != nil {
		return err
	}
	return Pack(ctx, w, s.tree(id))
}

// Archivable returns nil if Archive can write the layer, and otherwise a fault
// with the reason. A machine can save files that no archive can hold.
func (s *Store) Archivable(ctx context.Context, id string) error {
	if _, err := s.Layer(id); err != nil {
		return err
	}
	left, links := int64(maxPacked), map[inode]bool{}
	err := filepath.WalkDir(s.tree(id), func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
			key := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // narrower on other processors
			if links[key] {
				return nil
			}
			links[key] = true
		}
		if left -= info.Size(); left < 0 {
			return fault.Exhausted("the files of %s are larger than %d GiB in total", id, maxPacked>>30).Named("snapshot_too_large")
		}
		return nil
	})
	if errors.Is(err, unix.ENAMETOOLONG) {
		return fault.Exhausted("folders of %s are nested deeper than a path can be", id).Named("snapshot_too_large")
	}
	return err
}

// Add adds a layer whose files are in an archive of [Store.Archive]. The layer
// below it must exist. The archive is not trusted.
func (s *Store) Add(ctx context.Context, l Layer, archive io.Reader) error {
	if !ValidID(l.ID) || l.Parent != "" && !ValidID(l.Parent) {
		return fmt.Errorf("add layer: invalid id %q or parent %q", l.ID, l.Parent)
	}
	dir, done, err := s.workDir()
	if err != nil {
		return err
	}
	defer done()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	if err := s.unpacker.Saved(ctx, archive, tree); err != nil {
		return fmt.Errorf("add layer %s: %w", l.ID, err)
	}
	if err := syncTree(dir); err != nil {
		return err
	}
	return s.locked(func() error {
		if s.Has(l.ID) {
			return fmt.Errorf("add layer %s: it already exists", l.ID)
		}
		return s.moveInto(l, tree)
	})
}
