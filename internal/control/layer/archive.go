package layer

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Pin returns the layer id and those below it, topmost first. It keeps them from
// being removed until release is called or this process ends.
func (s *Store) Pin(id string) (stack []Layer, release func(), err error) { return s.pin(id) }

// Archive writes the files of a layer, without those below it, in the form of [Pack].
// The same layer always gives the same bytes.
func (s *Store) Archive(ctx context.Context, w io.Writer, id string) error {
	if _, err := s.Layer(id); err != nil {
		return err
	}
	return Pack(ctx, w, s.tree(id))
}

// Add adds a layer with the files of an archive of [Store.Archive]. The layer below it
// must exist. The archive is not trusted.
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
			return fmt.Errorf("add layer %s: it exists", l.ID)
		}
		return s.moveInto(l, tree)
	})
}
