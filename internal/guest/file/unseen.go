package file

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"aloft/internal/policy/sandbox"
)

const (
	ignoreFile     = ".cursorignore"
	maxIgnoreBytes = 1 << 20 // the part of one .cursorignore file that is read
)

// Unseen knows which files the .cursorignore files of a workspace hide from the
// agent. It is made for one call and caches each folder's .cursorignore. It is
// not safe for concurrent use.
type Unseen struct {
	dir, root string // the workspace's path, and the same with symbolic links resolved
	folders   map[string]unseenFolder
}

type unseenFolder struct {
	ignore sandbox.Ignore
	by     string // the first hidden folder of the path, including the path itself; "" if none is hidden
}

// NewUnseen returns the Unseen of a workspace, given as an absolute path.
func NewUnseen(dir string) *Unseen {
	return &Unseen{dir: dir, root: RealPath(dir), folders: map[string]unseenFolder{}}
}

// Covers returns what hides a path relative to the workspace: the path itself,
// or the first hidden folder above it. It returns "" for a path that is not
// hidden or is outside the workspace.
func (u *Unseen) Covers(name string, folder bool) string {
	name = path.Clean(name)
	if name == "." || name == ".." || strings.HasPrefix(name, "../") || path.IsAbs(name) {
		return ""
	}
	in := u.folder(path.Dir(name))
	switch {
	case in.by != "":
		return in.by
	case in.ignore.Match(name, folder):
		return name
	}
	return ""
}

func (u *Unseen) folder(name string) unseenFolder {
	if f, ok := u.folders[name]; ok {
		return f
	}
	var f unseenFolder
	within := ""
	if name != "." {
		f, within = u.folder(path.Dir(name)), name
		if f.by == "" && f.ignore.Match(name, true) {
			f.by = name
		}
	}
	if f.by == "" {
		f.ignore.Add(within, readIgnore(filepath.Join(u.root, name, ignoreFile)))
	}
	u.folders[name] = f
	return f
}

// readIgnore reads an ignore file; it returns "" if there is none.
func readIgnore(name string) string {
	f, _, err := Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes))
	if err != nil {
		return ""
	}
	return string(text)
}

// Check refuses an absolute path that is hidden, or that leads to a hidden file
// through symbolic links.
func (u *Unseen) Check(name string) error {
	st, err := os.Stat(name)
	folder := err == nil && st.IsDir()
	unresolved := filepath.Join(RealPath(filepath.Dir(name)), filepath.Base(name)) // a final symbolic link is not followed
	for _, place := range []struct{ root, name string }{{u.dir, name}, {u.root, unresolved}, {u.root, RealPath(name)}} {
		rel, err := filepath.Rel(place.root, place.name)
		if err == nil && u.Covers(rel, folder) != "" {
			return fmt.Errorf("%s cannot be accessed: %s hides it", name, ignoreFile)
		}
	}
	return nil
}

// In returns a function that reports whether a path relative to dir is hidden.
// Such paths must not contain symbolic links.
func (u *Unseen) In(dir string) func(name string, folder bool) bool {
	base, err := filepath.Rel(u.root, RealPath(dir))
	if err != nil {
		return func(string, bool) bool { return false }
	}
	return func(name string, folder bool) bool { return u.Covers(path.Join(base, name), folder) != "" }
}
