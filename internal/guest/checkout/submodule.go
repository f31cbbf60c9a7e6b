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

// maxSubmodules bounds how many submodules a repository may have.
const maxSubmodules = 100

// Submodules checks out the submodules of a clone that has just been made or
// adopted, and theirs, as the commit names them. One that cannot be had is no
// error: the notes name it, with git's words.
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
			notes = append(notes, fmt.Sprintf("%d submodules are left out: at most %d are checked out", len(paths)-i, maxSubmodules))
			break
		}
		progress("submodule " + path)
		// Each by itself, so that one that fails stands in no other's way.
		_, err := r.git(ctx, localLimit, "submodule", "--quiet", "update", "--init", "--recursive", "--force", "--checkout", "--", path)
		if f, refused := errors.AsType[*Failure](err); refused {
			notes = append(notes, fmt.Sprintf("submodule %s is not checked out: %s", path, f.Detail))
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return notes, r.remember(state)
}

// submodules are the paths of the submodules that .gitmodules tells of. A file
// that git cannot read has none.
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
