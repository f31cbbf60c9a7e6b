package tool

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
	maxIgnoreBytes = 1 << 20 // that are read of one
)

// Unseen knows what the .cursorignore files of a workspace hide from its agent.
// It lasts for one call: each folder's file is read when a path in the folder is
// first asked about, and not again. It is not safe for concurrent use.
type Unseen struct {
	dir, root string // the workspace as it is named, and as it is without symbolic links
	folders   map[string]unseenFolder
}

type unseenFolder struct {
	ignore sandbox.Ignore
	by     string // of the folders on the way to it the first that is hidden, itself included; "" for none
}

// NewUnseen is for a workspace, an absolute path.
func NewUnseen(dir string) *Unseen {
	return &Unseen{dir: dir, root: realPath(dir), folders: map[string]unseenFolder{}}
}

// Covers returns what hides a path that is given relative to the workspace: the
// path itself, or the first hidden folder on the way. It is empty for a path that
// is not hidden, and for one outside of the workspace.
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

// readIgnore is empty where there is no such file.
func readIgnore(name string) string {
	f, _, err := openRegular(name)
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

// Check refuses an absolute path that is hidden, or that leads by symbolic links
// to what is.
func (u *Unseen) Check(name string) error {
	st, err := os.Stat(name)
	folder := err == nil && st.IsDir()
	unresolved := filepath.Join(realPath(filepath.Dir(name)), filepath.Base(name)) // the link itself, if it is one
	for _, place := range []struct{ root, name string }{{u.dir, name}, {u.root, unresolved}, {u.root, realPath(name)}} {
		rel, err := filepath.Rel(place.root, place.name)
		if err == nil && u.Covers(rel, folder) != "" {
			return fmt.Errorf("%s is not there for you: %s hides it", name, ignoreFile)
		}
	}
	return nil
}

// in tells of paths relative to a folder, by which no symbolic link is passed,
// whether they are hidden.
func (u *Unseen) in(dir string) func(name string, folder bool) bool {
	base, err := filepath.Rel(u.root, realPath(dir))
	if err != nil {
		return func(string, bool) bool { return false }
	}
	return func(name string, folder bool) bool { return u.Covers(path.Join(base, name), folder) != "" }
}

// realPath follows the symbolic links of a path as far as it is there.
func realPath(name string) string {
	for rest := ""; ; {
		if found, err := filepath.EvalSymlinks(name); err == nil {
			return filepath.Join(found, rest)
		}
		up := filepath.Dir(name)
		if up == name {
			return filepath.Join(name, rest)
		}
		name, rest = up, filepath.Join(filepath.Base(name), rest)
	}
}
