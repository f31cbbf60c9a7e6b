package image

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// PruneOptions say what [Store.Prune] leaves.
type PruneOptions struct {
	// Unused forgets images that were last prepared longer ago than this. The
	// names of what was imported are never forgotten: see [Store.Remove].
	Unused time.Duration
	// Keep is what is needed by what the store does not know, the machines and
	// snapshots: names of images, best in their pinned form, and directories of
	// layers.
	Keep []string
}

// Pruned is what [Store.Prune] removed.
type Pruned struct {
	Images []string // names forgotten
	Layers int
	Bytes  int64 // that their files took
}

// partAge is how long a blob that nobody goes on fetching is kept.
const partAge = 24 * time.Hour

// Prune forgets images that have not been used and removes the layers that
// nothing needs: no image, none of o.Keep, no other process that prepared them
// and lives, and this one not in the last hour. It may be called at any time, and
// killed.
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
		if time.Since(r.Used) >= o.Unused && !imported(r.Name) && !s.kept(r.Name, keep) {
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

// imported reports whether a name was given by a person, who alone takes it back.
func imported(name string) bool {
	return strings.HasPrefix(name, localPrefix) && !strings.HasPrefix(name, builtPrefix) && !strings.Contains(name, "@")
}

// kept reports whether a record's name is one of those, however written.
func (s *Store) kept(name string, keep []string) bool {
	return slices.ContainsFunc(keep, func(k string) bool {
		if k == name {
			return true
		}
		ref, err := s.registry.Parse(k)
		return err == nil && ref.Name == name
	})
}

// removeLayer removes a layer that no process holds. It takes its name away
// first, so that what is left of it when this is killed is no layer.
func (s *Store) removeLayer(key string) (bytes int64, removed bool, err error) {
	lock, err := lockDir(s.layerDir(key))
	if err != nil {
		return 0, false, nil // somebody uses it, or it is gone
	}
	defer func() { _ = unix.Close(lock) }()
	gone := filepath.Join(s.dir, "layers", unfinished+"gone-"+key)
	if err := os.Rename(s.layerDir(key), gone); err != nil {
		return 0, false, err
	}
	bytes = size(gone)
	return bytes, true, os.RemoveAll(gone)
}

// size is what a tree takes on the disk, in bytes, each file counted once.
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

// Size is what an image's own layers take on the disk, in bytes. Those that it
// shares with others are counted too.
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
