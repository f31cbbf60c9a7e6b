package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// File returns a regular file of the commit with the given full id, which the
// mirror must have. The error wraps [fs.ErrNotExist] if there is no such file,
// or if it is a symbolic link.
func (m *Mirror) File(ctx context.Context, commit, name string, max int) ([]byte, error) {
	if !wholeID.MatchString(commit) {
		return nil, fmt.Errorf("%q is not a commit id", Plain(commit))
	}
	if !fs.ValidPath(name) || path.Clean(name) != name {
		return nil, fmt.Errorf("%q is not a valid path in a repository", Plain(name))
	}
	entry, _, err := m.git(ctx, invocation{args: []string{"ls-tree", "-z", "--full-tree", commit, "--", ":(literal)" + name}})
	if err != nil {
		return nil, err
	}
	mode, rest, _ := strings.Cut(strings.TrimSuffix(string(entry), "\x00"), " ")
	kind, rest, _ := strings.Cut(rest, " ")
	id, _, _ := strings.Cut(rest, "\t")
	if kind != "blob" || !strings.HasPrefix(mode, "100") {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	var out strings.Builder
	_, _, err = m.git(ctx, invocation{args: []string{"cat-file", "blob", id}, stdout: &limitWriter{w: &out, left: int64(max)}})
	if err != nil {
		return nil, errors.Join(err, fmt.Errorf("%s: it may be longer than %d bytes", name, max))
	}
	return []byte(out.String()), nil
}
