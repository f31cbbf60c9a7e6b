package image

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Unpublished returns the records of images that no registry has: imported and
// built images, and OCI layouts. It locks their layers, as [Store.Prepare]
// does.
func (s *Store) Unpublished() ([]Record, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r Record) bool {
		if !unpublished(r.Name) {
			return true
		}
		_, whole := s.find(r.Name)
		return !whole
	}), nil
}

func unpublished(name string) bool {
	return strings.HasPrefix(name, localPrefix) || strings.HasPrefix(name, ociPrefix)
}

// LayerDir returns the folder of a layer of a [Record].
func (s *Store) LayerDir(key string) string { return s.layerDir(key) }

var keyPattern = regexp.MustCompile(`^` + layerKey("") + `[0-9a-f]{64}$`)

// AddLayer adds a layer with the files of an archive, in the form of saved
// layers (see package unpack). The archive is not trusted, but the caller must
// make sure that key names its content. If the layer exists, AddLayer leaves it
// as it is.
func (s *Store) AddLayer(ctx context.Context, key string, archive io.Reader) error {
	if !keyPattern.MatchString(key) {
		return fmt.Errorf("invalid key of a layer: %q", key)
	}
	_, err := s.layer(ctx, key, func(ctx context.Context, dir string) error {
		if err := s.unpacker.Saved(ctx, archive, dir); err != nil {
			return err
		}
		return syncTree(dir)
	})
	return err
}

// AddRecord adds a record of [Store.Unpublished], whose layers must exist.
func (s *Store) AddRecord(r Record) error {
	if !unpublished(r.Name) {
		return fmt.Errorf("image %q: it is not an image without a registry", r.Name)
	}
	for _, key := range r.Layers {
		if !keyPattern.MatchString(key) || !s.protectLayer(key) {
			return fmt.Errorf("image %q: there is no layer %q", r.Name, key)
		}
	}
	return s.saveAs(r)
}
