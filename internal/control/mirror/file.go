package mirror

import (
	"context"
	"fmt"
	"io/fs"
	"path"
)

// File returns a regular file of the commit with the given full id, which the
// mirror must have. The error wraps [fs.ErrNotExist] if there is no such file,
// or if it is a symbolic link.
func (m *Mirror) File(ctx context.Context, commit, name string, max int) ([]byte, error) {
	if !fs.ValidPath(name) || path.Clean(name) != name {
		return nil, fmt.Errorf("%q is not a valid path in a repository", Plain(name))
	}
	files, _, err := m.Tree(ctx, commit, []string{name})
	if err != nil {
		return nil, err
	}
	blob, ok := files[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	case blob.Size > int64(max):
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, blob.Size, max)
	}
	return m.Contents(ctx, blob, int64(max))
}
