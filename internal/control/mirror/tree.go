package mirror

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"aloft/internal/fault"
)

// Blob is a file of a commit. Its content is identified by ID in any commit.
type Blob struct {
	ID   string
	Size int64 // bytes
}

// Tree looks up paths in a commit. It returns regular files, and the paths that
// are symbolic links, which are not followed. All other paths are left out.
func (m *Mirror) Tree(ctx context.Context, commit string, paths []string) (files map[string]Blob, links []string, err error) {
	if !wholeID.MatchString(commit) {
		return nil, nil, fault.Invalid("%q is not a commit id", Plain(commit))
	}
	args := append([]string{"--literal-pathspecs", "ls-tree", "-z", "-l", "--full-tree", commit, "--"}, paths...)
	out, err := m.answer(ctx, args)
	if err != nil {
		return nil, nil, fmt.Errorf("list files: %w", err)
	}
	files = map[string]Blob{}
	for line := range strings.SplitSeq(string(out), "\x00") {
		path, blob, link, ok := treeEntry(line)
		switch {
		case link:
			links = append(links, path)
		case ok:
			files[path] = blob
		}
	}
	return files, links, nil
}

// Walk calls visit for each regular file of a commit, sorted by path, or for those in
// the given folders. It skips symbolic links and submodules.
func (m *Mirror) Walk(ctx context.Context, commit string, visit func(path string, b Blob), folders ...string) error {
	if !wholeID.MatchString(commit) {
		return fault.Invalid("%q is not a commit id", Plain(commit))
	}
	lines := &treeLines{visit: visit}
	args := append([]string{"--literal-pathspecs", "ls-tree", "-r", "-z", "-l", "--full-tree", commit, "--"}, folders...)
	if _, _, err := m.git(ctx, invocation{args: args, stdout: lines}); err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	return nil
}

// treeLines is a writer that parses the output of git ls-tree -z -l.
type treeLines struct {
	visit func(path string, b Blob)
	rest  []byte // an incomplete line
}

func (t *treeLines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, after, ended := bytes.Cut(p, []byte{0})
		if !ended {
			t.rest = append(t.rest, line...)
			return n, nil
		}
		if path, blob, _, ok := treeEntry(string(append(t.rest, line...))); ok {
			t.visit(path, blob)
		}
		t.rest, p = t.rest[:0], after
	}
}

// treeEntry parses a line of git ls-tree -l. ok means a regular file, and link
// a symbolic link.
func treeEntry(line string) (path string, b Blob, link, ok bool) {
	info, path, found := strings.Cut(line, "\t")
	part := strings.Fields(info)
	if !found || len(part) != 4 || part[1] != "blob" {
		return path, Blob{}, false, false
	}
	if strings.HasPrefix(part[0], "120") {
		return path, Blob{}, true, false
	}
	size, err := strconv.ParseInt(part[3], 10, 64)
	return path, Blob{part[2], size}, false, err == nil
}

// Contents returns at most limit bytes of a blob.
func (m *Mirror) Contents(ctx context.Context, b Blob, limit int64) ([]byte, error) {
	if !wholeID.MatchString(b.ID) {
		return nil, fault.Invalid("%q is not a blob id", Plain(b.ID))
	}
	args := []string{"cat-file", "blob", b.ID}
	if b.Size <= min(limit, maxAnswer) {
		data, err := m.answer(ctx, args)
		if err != nil {
			return nil, fmt.Errorf("read a file: %w", err)
		}
		return bytes.Clone(data), nil
	}
	head := &headBuffer{max: int(limit)}
	if _, _, err := m.git(ctx, invocation{args: args, stdout: head}); err != nil {
		return nil, fmt.Errorf("read a file: %w", err)
	}
	return head.Bytes(), nil
}
