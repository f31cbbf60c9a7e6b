package mirror

import (
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
		info, path, ok := strings.Cut(line, "\t")
		part := strings.Fields(info)
		if !ok || len(part) != 4 || part[1] != "blob" {
			continue
		}
		if strings.HasPrefix(part[0], "120") {
			links = append(links, path)
		} else if size, err := strconv.ParseInt(part[3], 10, 64); err == nil {
			files[path] = Blob{part[2], size}
		}
	}
	return files, links, nil
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
