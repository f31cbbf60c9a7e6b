package checkout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxSubmodules limits how many submodules are checked out.
const maxSubmodules = 100

// Submodules checks out the submodules of a new or adopted clone, recursively,
// at the commits that the repository records. A submodule that cannot be
// checked out is not an error: a note contains its name and git's message.
func (r *Repository) Submodules(ctx context.Context, progress func(string)) (notes []string, err error) {
	state, err := r.recall()
	if err != nil || !state.Modules || state.Path != r.Path {
		return nil, err
	}
	state.Modules = false
	if info, err := os.Lstat(filepath.Join(r.Path, ".gitmodules")); err != nil || !info.Mode().IsRegular() {
		return nil, r.remember(state)
	}
	paths, err := r.submodules(ctx)
	if err != nil {
		return nil, err
	}
	for i, path := range paths {
		if i == maxSubmodules {
			notes = append(notes, fmt.Sprintf("%d submodules were skipped: at most %d are checked out", len(paths)-i, maxSubmodules))
			break
		}
		progress("submodule " + path)
		// Check each out separately, so that one failure does not affect the
		// others.
		_, err := r.git(ctx, localLimit, "submodule", "--quiet", "update", "--init", "--recursive", "--force", "--checkout", "--", path)
		if f, refused := errors.AsType[*Failure](err); refused {
			notes = append(notes, fmt.Sprintf("submodule %s could not be checked out: %s", path, f.Detail))
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return notes, r.remember(state)
}

// submodules returns the paths of the submodules in .gitmodules; none if git
// cannot read that file.
func (r *Repository) submodules(ctx context.Context) ([]string, error) {
	out := &bounded{limit: maxOutput}
	c := r.gitCommand("config", "--null", "--file", ".gitmodules", "--get-regexp", `^submodule\..*\.path$`)
	c.Stdout = out
	exit, err := r.limited(ctx, quickLimit, c)
	if err != nil || exit != 0 {
		return nil, err
	}
	var paths []string
	for entry := range bytes.SplitSeq([]byte(out.String()), []byte{0}) {
		if _, path, ok := strings.Cut(string(entry), "\n"); ok && path != "" && !strings.ContainsFunc(path, isControl) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}
