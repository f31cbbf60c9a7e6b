package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aloft/internal/fault"
)

// Export writes a commit's files into dir, an empty folder, as a checkout
// would. Git refuses names that lead out of dir and does not write through
// links. Submodules become empty folders.
func (m *Mirror) Export(ctx context.Context, commit, dir string) error {
	if !wholeID.MatchString(commit) {
		return fault.Invalid("%q is not a commit id", Plain(commit))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Join(m.all.dir, "quarantine"), "export-")
	if err != nil {
		return err
	}
	defer m.all.discard(scratch)
	if err := errors.Join(m.all.host.Share(scratch, m.user), m.all.host.Share(dir, m.user)); err != nil {
		return err
	}
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(scratch, "index"), "GIT_WORK_TREE=" + dir}
	for _, args := range [][]string{{"read-tree", commit}, {"checkout-index", "--all", "--quiet"}} {
		if _, _, err := m.git(ctx, invocation{args: args, env: env, write: []string{scratch, dir}}); err != nil {
			return fmt.Errorf("export %s: %w", commit, err)
		}
	}
	return m.all.host.TakeBack(dir)
}

// IDs returns the object ids of paths in a commit, of folders including their
// content; "." is the root. Missing paths and symbolic links are left out.
func (m *Mirror) IDs(ctx context.Context, commit string, paths []string) (map[string]string, error) {
	if !wholeID.MatchString(commit) {
		return nil, fault.Invalid("%q is not a commit id", Plain(commit))
	}
	found := map[string]string{}
	args := []string{"--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit, "--"}
	for _, p := range paths {
		if p != "." {
			args = append(args, p)
			continue
		}
		id, _, err := m.git(ctx, invocation{args: []string{"rev-parse", commit + "^{tree}"}})
		if err != nil {
			return nil, fmt.Errorf("look for the root: %w", err)
		}
		found["."] = strings.TrimSpace(string(id))
	}
	if len(found) == len(paths) { // ls-tree without paths would list everything
		return found, nil
	}
	out, _, err := m.git(ctx, invocation{args: args})
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	for line := range strings.SplitSeq(string(out), "\x00") {
		info, path, ok := strings.Cut(line, "\t")
		if part := strings.Fields(info); ok && len(part) == 3 && !strings.HasPrefix(part[0], "12") {
			found[path] = part[0] + " " + part[2]
		}
	}
	return found, nil
}
