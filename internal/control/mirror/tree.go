package mirror

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"aloft/internal/fault"
)

// Blob is a file of a commit: what it holds is named by its ID, and is the same
// wherever the ID is.
type Blob struct {
	ID   string
	Size int64 // bytes
}

// Tree finds files of a commit by their paths from its root, and of links, which
// are not followed, that they are there. What is neither is left out.
func (m *Mirror) Tree(ctx context.Context, commit string, paths []string) (files map[string]Blob, links []string, err error) {
	if !wholeID.MatchString(commit) {
		return nil, nil, fault.Invalid("%q is no commit", Plain(commit))
	}
	args := append([]string{"--literal-pathspecs", "ls-tree", "-z", "-l", "--full-tree", commit, "--"}, paths...)
	out, _, err := m.all.git(ctx, invocation{args: args, dir: m.dir})
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

// Walk calls visit with each file of a commit, in the order of their paths. Links
// and submodules are left out.
func (m *Mirror) Walk(ctx context.Context, commit string, visit func(path string, b Blob)) error {
	if !wholeID.MatchString(commit) {
		return fault.Invalid("%q is no commit", Plain(commit))
	}
	lines := &treeLines{visit: visit}
	args := []string{"ls-tree", "-r", "-z", "-l", "--full-tree", commit}
	if _, _, err := m.all.git(ctx, invocation{args: args, dir: m.dir, stdout: lines}); err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	return nil
}

// treeLines is a writer for what git ls-tree -z -l prints.
type treeLines struct {
	visit func(path string, b Blob)
	rest  []byte // of a line that has not ended
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

// treeEntry reads a line of git ls-tree -l. ok says that it is of a file, link
// that it is of a symbolic link.
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

// Contents returns what a blob holds: at most limit bytes of it.
func (m *Mirror) Contents(ctx context.Context, b Blob, limit int64) ([]byte, error) {
	if !wholeID.MatchString(b.ID) {
		return nil, fault.Invalid("%q is no blob", Plain(b.ID))
	}
	head := &headBuffer{max: int(limit)}
	if _, _, err := m.all.git(ctx, invocation{args: []string{"cat-file", "blob", b.ID}, dir: m.dir, stdout: head}); err != nil {
		return nil, fmt.Errorf("read a file: %w", err)
	}
	return head.Bytes(), nil
}
