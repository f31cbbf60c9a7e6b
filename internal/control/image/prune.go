package image

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aloft/internal/control/trash"
	"aloft/internal/lockfile"

	"golang.org/x/sys/unix"
)

// PruneOptions say what [Store.Prune] keeps.
type PruneOptions struct {
	// Unused is how long an image must be unused before it is removed. Names of
	// imported images are never removed: see [Store.Remove].
	Unused time.Duration
	// Keep lists images (preferably by pinned name) and directories of layers
	// that machines and snapshots need. The store itself does not know these
	// needs.
	Keep []string
}

// Pruned lists the images and layers that [Store.Prune] removed.
type Pruned struct {
	Images []string // names of the images
	Layers int
	Bytes  int64 // disk space freed
}

// partAge is how long an abandoned partial download is kept.
const partAge = 24 * time.Hour

// Prune removes unused images and layers. A layer is unused if no image,
// nothing in o.Keep and no other running process needs it, and this process has
// not used it for an hour. Prune can be called at any time and is safe to
// interrupt.
func (s *Store) Prune(ctx context.Context, o PruneOptions) (Pruned, error) {
	var out Pruned
	records, err := s.List()
	if err != nil {
		return out, err
	}
	needed := map[string]bool{}
	for _, k := range o.Keep {
		if rel, err := filepath.Rel(filepath.Join(s.dir, "layers"), k); err == nil {
			needed[strings.SplitN(rel, "/", 2)[0]] = true
		}
	}
	keep := slices.Clone(o.Keep)
	for _, r := range records {
		if imported(r.Name) {
			keep = append(keep, r.pinned())
		}
	}
	for _, r := range records {
		if time.Since(r.Used) >= o.Unused && !imported(r.Name) && !s.isKept(r.Name, keep) {
			if err := s.Remove(r.Name); err == nil {
				out.Images = append(out.Images, r.Name)
				continue
			}
		}
		for _, key := range r.Layers {
			needed[key] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "layers"))
	if err != nil {
		return out, err
	}
	for _, e := range entries {
		if needed[e.Name()] || strings.HasPrefix(e.Name(), unfinished) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return out, context.Cause(ctx)
		}
		s.letGo(e.Name(), o.Unused)
		n, removed, err := s.removeLayer(e.Name())
		if err != nil {
			return out, err
		}
		if removed {
			out.Layers++
			out.Bytes += n
		}
	}
	return out, s.pruneBlobs()
}

// imported reports whether a person named the image. Only a person may remove
// such a name.
func imported(name string) bool {
	return strings.HasPrefix(name, localPrefix) && !strings.HasPrefix(name, builtPrefix) && !strings.Contains(name, "@")
}

// isKept reports whether keep contains the name of a record, in any spelling.
func (s *Store) isKept(name string, keep []string) bool {
	return slices.ContainsFunc(keep, func(k string) bool {
		if k == name {
			return true
		}
		ref, err := s.registry.Parse(k)
		return err == nil && ref.Name == name
	})
}

// removeLayer removes a layer that no process holds. It renames the layer
// first, so that an interrupted removal leaves no half-removed layer.
func (s *Store) removeLayer(key string) (bytes int64, removed bool, err error) {
	lock, err := lockfile.Open(s.layerDir(key))
	if err != nil {
		return 0, false, nil // the layer is in use or already gone
	}
	defer func() { _ = lock.Close() }()
	trashed := filepath.Join(s.dir, "layers", unfinished+"gone-"+key)
	if err := os.Rename(s.layerDir(key), trashed); err != nil {
		return 0, false, err
	}
	bytes = size(trashed)
	return bytes, true, trash.RemoveAll(trashed)
}

// size returns the disk usage of a tree in bytes, counting each file once.
func size(dir string) (bytes int64) {
	seen := map[uint64]bool{}
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(path, &st) == nil && !seen[st.Ino] {
			seen[st.Ino] = st.Nlink > 1
			bytes += st.Blocks * 512
		}
		return nil
	})
	return bytes
}

// Size returns the disk usage of an image's own layers in bytes, including
// layers shared with other images.
func (s *Store) Size(r Record) int64 {
	var bytes int64
	for i, key := range r.Layers {
		if !slices.Contains(r.Layers[:i], key) {
			bytes += size(s.layerDir(key))
		}
	}
	return bytes
}

func (s *Store) pruneBlobs() error {
	entries, err := os.ReadDir(filepath.Join(s.dir, "blobs"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < partAge {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, "blobs", e.Name())); err != nil {
			return err
		}
	}
	return nil
}
