package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/policy/sandbox"
)

// A Target is a file that a tool is about to change. It holds the file's folder
// open: if somebody renames a folder of the path or replaces it by a symbolic
// link, the tool still writes to the same folder. The caller must Close it.
type Target struct {
	Path   string // absolute, with symbolic links resolved
	At     string // the same file, reached through the open folder
	Linked bool   // the given path is a symbolic link to it
	dir    *os.File
	lacks  []string // missing folders between dir and the file
}

// maxLinks is the kernel's limit on symbolic links in a path.
const maxLinks = 40

// Target opens the folder of the file that the model gave as name. If follow is
// set, the tool changes the target of a symbolic link rather than the link. A
// guarded call is refused if the file needs approval and its path is not the
// one that the control plane approved.
func (w Workspace) Target(name string, guarded, follow bool) (Target, error) {
	given, err := w.Path(name)
	if err != nil {
		return Target{}, err
	}
	path := given
	for range maxLinks {
		t, err := openTarget(path)
		if err != nil {
			return Target{}, err
		}
		link, err := os.Readlink(t.At)
		if err == nil && follow {
			if !filepath.IsAbs(link) {
				link = filepath.Join(filepath.Dir(t.Path), link)
			}
			t.Close()
			path = filepath.Clean(link)
			continue
		}
		t.Linked = path != given
		if err := errors.Join(NewUnseen(w.Dir).Check(t.Path), w.admits(t, given, guarded)); err != nil {
			t.Close()
			return Target{}, err
		}
		return t, nil
	}
	return Target{}, Explain(given, syscall.ELOOP)
}

// openTarget opens the folder of a file, or the nearest parent that exists.
func openTarget(path string) (Target, error) {
	name, dir := filepath.Base(path), filepath.Dir(path)
	t := Target{}
	for {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			t.dir = os.NewFile(uintptr(fd), dir)
			break
		}
		if _, there := os.Lstat(dir); there == nil && errors.Is(err, fs.ErrNotExist) {
			return Target{}, fmt.Errorf("%s is a symbolic link whose target does not exist", dir)
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return Target{}, Explain(path, err)
		}
		t.lacks = append([]string{filepath.Base(dir)}, t.lacks...)
		dir = filepath.Dir(dir)
	}
	real, err := os.Readlink(through(t.dir))
	if err != nil || !filepath.IsAbs(real) {
		t.Close()
		return Target{}, fmt.Errorf("cannot resolve the real path of %s: %w", dir, errors.Join(err, fs.ErrNotExist))
	}
	below := filepath.Join(append(slices.Clone(t.lacks), name)...)
	t.Path, t.At = filepath.Join(real, below), filepath.Join(through(t.dir), below)
	return t, nil
}

// through returns a path to an open folder that stays valid if the folder is
// renamed.
func through(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", dir.Fd()) }

// Close closes the folder.
func (t Target) Close() {
	if t.dir != nil {
		_ = t.dir.Close() // nothing was written to it
	}
}

// makeFolders creates the missing folders, each relative to its open parent, so
// that none of them can be a symbolic link.
func (t *Target) makeFolders() error {
	for ; len(t.lacks) > 0; t.lacks = t.lacks[1:] {
		name := t.lacks[0]
		err := unix.Mkdirat(int(t.dir.Fd()), name, 0o755)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return Explain(filepath.Dir(t.Path), err)
		}
		fd, err := unix.Openat(int(t.dir.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return Explain(filepath.Dir(t.Path), err)
		}
		t.Close()
		t.dir = os.NewFile(uintptr(fd), name)
	}
	t.At = filepath.Join(through(t.dir), filepath.Base(t.Path))
	return nil
}

// admits returns an error if a guarded call may not change the file.
func (w Workspace) admits(t Target, given string, guarded bool) error {
	if !guarded {
		return nil
	}
	guard := sandbox.Guard{Workspaces: []string{RealPath(w.Dir)}}
	for _, dir := range w.Free {
		guard.Free = append(guard.Free, RealPath(dir))
	}
	why := guard.Judge(t.Path)
	switch {
	case why != "" && t.Path == given:
		return nil // this path was approved
	case why != "":
		return Denied("%s is really %s, which is %s: nothing was done, because another path was approved. If you mean that file, give its own path", given, t.Path, why)
	}
	for _, root := range append(slices.Clone(guard.Workspaces), guard.Free...) {
		if sandbox.Below(root, t.Path) {
			if other := spelled(root, t.Path); other != "" {
				return Denied("%s is another spelling of %s, which is protected: nothing was done. If you mean that file, give its own path", given, other)
			}
			break
		}
	}
	if other := w.otherName(t, guard.Workspaces); other != "" {
		return Denied("%s is a hard link to %s, which is protected: nothing was done. If you mean that file, give its own path", given, other)
	}
	return nil
}

// spelled returns the protected name that the file system may treat as equal to a
// component of the path. For example, a case-insensitive file system opens .GIT as .git.
func spelled(root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return ""
	}
	dir := root
	for part := range strings.SplitSeq(rel, "/") {
		own, err := os.Lstat(filepath.Join(dir, part))
		if err != nil {
			return "" // a path that does not exist names no other file
		}
		for _, name := range sandbox.GuardedNames() {
			other := filepath.Join(dir, name)
			if info, err := os.Lstat(other); name != part && err == nil && os.SameFile(own, info) {
				return other
			}
		}
		dir = filepath.Join(dir, part)
	}
	return ""
}

// maxLinked limits how many files are compared with a file that has several
// hard links.
const maxLinked = 20_000

// otherName returns the path of a protected file if the target is a hard link to it. It
// searches the workspace and the home folder; elsewhere only a command outside the
// sandbox could have made the link.
func (w Workspace) otherName(t Target, roots []string) string {
	own, err := os.Lstat(t.At)
	if err != nil {
		return ""
	}
	if st, ok := own.Sys().(*syscall.Stat_t); !ok || own.IsDir() || st.Nlink < 2 {
		return ""
	}
	if w.Home != "" {
		roots = append(slices.Clone(roots), w.Home)
	}
	found, seen := "", 0
	for _, root := range roots {
		for _, name := range sandbox.GuardedNames() {
			_ = filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return nil //nolint:nilerr // an unreadable file cannot be compared
				}
				if d.IsDir() && d.Name() == "objects" {
					return fs.SkipDir
				}
				if seen++; seen > maxLinked {
					return fs.SkipAll
				}
				if info, err := d.Info(); err == nil && os.SameFile(own, info) {
					found = path
					return fs.SkipAll
				}
				return nil
			})
			if found != "" {
				return found
			}
		}
	}
	return ""
}

// New is like Target, for a file that must not exist yet. It does not follow a link. Unless
// the path was approved, it has to be inside the workspace, and must not be a file that
// configures agents, editors or git.
func (w Workspace) New(name string, guarded bool) (Target, error) {
	t, err := w.Target(name, guarded, false)
	if err != nil {
		return Target{}, err
	}
	refuse := func(err error) (Target, error) {
		t.Close()
		return Target{}, err
	}
	if !guarded {
		switch why := (sandbox.Guard{Workspaces: []string{RealPath(w.Dir)}}).Judge(t.Path); why {
		case "":
		case sandbox.Outside:
			return refuse(Denied("%s is not inside the workspace %s: give a path there", t.Path, w.Dir))
		default:
			return refuse(Denied("%s may not be written: it configures agents, editors or git; give another path", t.Path))
		}
	}
	if _, err := os.Lstat(t.At); err == nil {
		return refuse(fmt.Errorf("%s already exists: give the path of a new file", t.Path))
	}
	return t, nil
}
