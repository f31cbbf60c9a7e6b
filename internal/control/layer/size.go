package layer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Size returns the disk usage of the layer's own files in bytes, counting hard
// links once, without the layers below. Counting many files takes a while and
// stops when ctx ends. The result is cached, since a layer never changes.
func (s *Store) Size(ctx context.Context, id string) (int64, error) {
	n, err := s.sizeOf(ctx, id)
	return n.bytes, err
}

// DiskUsage returns the disk usage of the layer's own files and of the memory
// that is kept with it: bytes and the number of inodes.
func (s *Store) DiskUsage(ctx context.Context, id string) (bytes, inodes int64, err error) {
	n, err := s.sizeOf(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	memory, err := os.ReadDir(s.path("memory", id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, fmt.Errorf("size of layer %s: %w", id, err)
	}
	for _, e := range memory { // not cached, because memory is added after the layer
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				n.bytes += st.Blocks * 512
				n.inodes++
			}
		}
	}
	return n.bytes, n.inodes, nil
}

// size is the disk usage of a layer.
type size struct{ bytes, inodes int64 }

func (s *Store) sizeOf(ctx context.Context, id string) (size, error) {
	if n, ok := s.sizes.Load(id); ok {
		return n.(size), nil
	}
	if !ValidID(id) {
		return size{}, notFound(id)
	}
	type inode struct{ dev, ino uint64 }
	linked := map[inode]bool{}
	var total size
	err := filepath.WalkDir(s.tree(id), func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Nlink > 1 && !d.IsDir() && linked[inode{st.Dev, st.Ino}] {
			return nil
		}
		if st.Nlink > 1 && !d.IsDir() {
			linked[inode{st.Dev, st.Ino}] = true
		}
		total.bytes += st.Blocks * 512
		total.inodes++
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return size{}, notFound(id)
	case err != nil:
		return size{}, fmt.Errorf("size of layer %s: %w", id, err)
	}
	s.sizes.Store(id, total)
	return total, nil
}

// A Need is a layer and the machines that need it.
type Need struct {
	Layer
	Machines []string // ids; a machine needs every layer of its stack
}

// MachineClaim returns the name of a machine's claim.
func MachineClaim(machineID string) string { return machineClaim + machineID }

const machineClaim = "machine-"

// Needs returns every complete layer, kept or not, with the machines that need
// it.
func (s *Store) Needs() ([]Need, error) {
	all, err := s.all()
	if err != nil {
		return nil, fmt.Errorf("list layers: %w", err)
	}
	entries, err := os.ReadDir(s.path("claims", ""))
	if err != nil {
		return nil, fmt.Errorf("list claims on layers: %w", err)
	}
	machines := map[string][]string{}
	for _, e := range entries {
		id, ok := strings.CutPrefix(e.Name(), machineClaim)
		if !ok {
			continue
		}
		c, err := s.readClaim(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // the claim has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		for _, l := range c.Layers {
			machines[l] = append(machines[l], id)
		}
	}
	needs := make([]Need, len(all))
	for i, l := range all {
		needs[i] = Need{Layer: l, Machines: machines[l.ID]}
	}
	return needs, nil
}
