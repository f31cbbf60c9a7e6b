package guard

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"aloft/internal/atomicfile"
	"aloft/internal/gitcmd"
	"aloft/internal/guest/file"
	sandboxpolicy "aloft/internal/policy/sandbox"
)

// trusted lists the repositories in the workspace whose configuration no sandboxed
// command could have written: they existed before the first sandboxed command, and the
// sandbox has protected them since. Its paths have no symbolic links.
type trusted struct {
	WorkTrees []string `json:"workTrees"`
	GitDirs   []string `json:"gitDirs"`
}

// maxTrusted limits the number of trusted repositories, since each costs mounts
// in every sandbox.
const maxTrusted = 256

// knowing serializes the first search for repositories in this process, which
// may have several Sandboxes.
var knowing sync.Mutex

// findTrusted returns the trusted repositories. The first call in a machine searches
// for them, so it must come before the first sandboxed command.
func (s *Sandbox) findTrusted() (*trusted, error) {
	knowing.Lock()
	defer knowing.Unlock()
	if s.trusted != nil {
		return s.trusted, nil
	}
	found := &trusted{}
	text, err := []byte(nil), fs.ErrNotExist
	if s.State != "" {
		text, err = os.ReadFile(s.State)
	}
	switch {
	case err == nil:
		if err := json.Unmarshal(text, found); err != nil {
			return nil, err
		}
	case errors.Is(err, fs.ErrNotExist):
		found = findRepositories(file.RealPath(s.Workspace))
		if s.State == "" {
			break
		}
		if text, err = json.Marshal(found); err == nil {
			err = atomicfile.Write(s.State, text, 0o600)
		}
		if err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	s.trusted = found
	return found, nil
}

// findRepositories returns the repositories in a folder whose git directories the
// sandbox protects: git directories in the working tree or in another repository's git
// directory. The folder itself counts even if it is no repository yet, since no
// sandboxed command can make it one.
func findRepositories(root string) *trusted {
	t := &trusted{WorkTrees: []string{root}, GitDirs: []string{filepath.Join(root, ".git")}}
	_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		dir := filepath.Dir(name)
		switch {
		case err != nil:
			return nil //nolint:nilerr // an unreadable folder contains no repository for this user
		case d.Name() != ".git" || name == root:
			return nil
		case len(t.WorkTrees) == maxTrusted:
			return fs.SkipAll
		}
		if r, ok := gitcmd.Open(dir); ok && dir != root && t.protects(r) {
			t.WorkTrees = append(t.WorkTrees, dir)
			t.GitDirs = append(t.GitDirs, file.RealPath(r.GitDir))
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return t
}

// protects reports whether the sandbox protects the repository's git directory,
// given those found before.
func (t *trusted) protects(r gitcmd.Repository) bool {
	within := func(dir string) bool {
		return dir == filepath.Join(r.WorkTree, ".git") || slices.ContainsFunc(t.GitDirs, func(other string) bool {
			return dir == other || sandboxpolicy.Below(other+"/modules", dir) || sandboxpolicy.Below(other+"/worktrees", dir)
		})
	}
	return within(file.RealPath(r.GitDir)) && within(file.RealPath(r.CommonDir))
}

// has reports whether a repository is trusted and has not been moved.
func (t *trusted) has(r gitcmd.Repository) bool {
	return slices.Contains(t.WorkTrees, r.WorkTree) && slices.Contains(t.GitDirs, file.RealPath(r.GitDir)) && slices.Contains(t.GitDirs, file.RealPath(r.CommonDir))
}

// looksBare reports whether git would take a folder for a git directory.
func looksBare(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	for _, name := range []string{"objects", "commondir"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}
