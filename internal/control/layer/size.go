package layer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// Size returns the disk usage of the layer's own files in bytes, counting hard
// links once, without the layers below. Counting many files takes a while and
// stops when ctx ends. The result is cached, since a layer never changes.
func (s *Store) Size(ctx context.Context, id string) (int64, error) {
	if n, ok := s.sizes.Load(id); ok {
		return n.(int64), nil
	}
	if !ValidID(id) {
		return 0, notFound(id)
	}
	type inode struct{ dev, ino uint64 }
	linked := map[inode]bool{}
	var total int64
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
		total += st.Blocks * 512
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, notFound(id)
	case err != nil:
		return 0, fmt.Errorf("size of layer %s: %w", id, err)
	}
	s.sizes.Store(id, total)
	return total, nil
}
