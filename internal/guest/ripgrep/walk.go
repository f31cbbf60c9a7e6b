package ripgrep

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// file is a file to search or list.
type file struct {
	name     string // as printed: starts with the path from the command line
	explicit bool   // named on the command line
	time     time.Time
}

// walker finds the files to search.
type walker struct {
	o       options
	globs   rules // from --glob, as an ignore file: there ! means exclude, so the verdicts are swapped
	only    bool  // at least one glob includes files: files that match no glob are left out
	types   []glob
	global  rules  // rules of git's excludesFile
	cwd     string // working directory, to which global is relative
	failed  error
	visited func(file) error
}

// folder is a folder with its ignore rules and those of the folders above it.
type folder struct {
	parent *folder
	abs    string // absolute path; "" is the root
	ruled  bool   // at least one of kinds has rules
	git    bool   // a repository's root
	// the rules of .rgignore, .ignore, .gitignore and .git/info/exclude, in this
	// order
	kinds [4]rules
}

var ignoreFiles = [...]string{".rgignore", ".ignore", ".gitignore"}

func newWalker(o options) (*walker, error) {
	w := &walker{o: o}
	for _, g := range o.globs {
		r, ok, err := parseRule(g)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if r.verdict == ignore {
			r.verdict, w.only = keep, true
		} else {
			r.verdict = ignore
		}
		w.globs = append(w.globs, r)
	}
	globs, err := o.typeGlobs()
	if err != nil {
		return nil, err
	}
	for _, g := range globs {
		match, err := compileGlob(g)
		if err != nil {
			return nil, err
		}
		w.types = append(w.types, match)
	}
	if w.cwd, err = os.Getwd(); err != nil {
		return nil, err
	}
	if !o.noIgnore {
		w.global = globalRules()
	}
	return w, nil
}

// errStop ends a walk early.
var errStop = errors.New("stop")

// walk calls visit with each file, in the order of the options. It returns the
// error of visit, or else the last error of reading a folder.
func (w *walker) walk(visit func(file) error) error {
	w.visited = visit
	var all []file
	if w.o.sort != "" && (w.o.sort != "path" || w.o.reverse) {
		w.visited = func(f file) error {
			all = append(all, f)
			return nil
		}
	}
	for _, p := range w.o.paths {
		if err := w.start(p); err != nil {
			return err
		}
	}
	slices.SortStableFunc(all, func(a, b file) int {
		if w.o.sort == "path" {
			return comparePaths(b.name, a.name)
		}
		if w.o.reverse {
			a, b = b, a
		}
		return a.time.Compare(b.time)
	})
	for _, f := range all {
		if err := visit(f); err != nil {
			return err
		}
	}
	return w.failed
}

// comparePaths compares by path component, so that a folder's files stay
// together.
func comparePaths(a, b string) int {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

// start walks one of the given paths, which may be a symbolic link.
func (w *walker) start(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		w.failed = err
		return nil //nolint:nilerr // walk returns it at the end
	}
	if !info.IsDir() {
		return w.visited(file{name: name, explicit: true, time: w.timeOf(info)})
	}
	abs := name
	if !filepath.IsAbs(name) {
		abs = filepath.Join(w.cwd, name)
	}
	abs = strings.TrimSuffix(filepath.Clean(abs), "/")
	var at *folder
	for _, above := range foldersAbove(abs) {
		at = w.enter(at, above, nil)
	}
	if !strings.HasSuffix(name, "/") {
		name += "/"
	}
	return w.folder(at, name, abs)
}

// foldersAbove returns the folders above a folder, the root first.
func foldersAbove(abs string) []string {
	var all []string
	for i := range len(abs) {
		if abs[i] == '/' {
			all = append(all, abs[:i])
		}
	}
	return all
}

// enter returns a folder with its ignore rules. If entries is nil, it tries to read each
// ignore file.
func (w *walker) enter(parent *folder, abs string, entries []fs.DirEntry) *folder {
	has := func(name string) bool { return true }
	if entries != nil {
		has = func(name string) bool {
			_, found := slices.BinarySearchFunc(entries, name, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
			return found
		}
	}
	f := &folder{parent: parent, abs: abs}
	if w.o.noIgnore {
		return f
	}
	for i, name := range ignoreFiles {
		if has(name) {
			f.kinds[i] = readRules(abs + "/" + name)
		}
	}
	if has(".git") {
		git := abs + "/.git"
		if _, err := os.Lstat(git); err == nil {
			f.git = true
			f.kinds[3] = readRules(filepath.Join(commonDir(git), "info/exclude"))
		}
	}
	f.ruled = slices.ContainsFunc(f.kinds[:], func(r rules) bool { return len(r) > 0 })
	return f
}

// maxRules is the maximum size of an ignore file in bytes; a larger one is not
// read.
const maxRules = 4 << 20

func readRules(name string) rules {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRules {
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return parseRules(string(text))
}

// commonDir returns the folder that the worktrees of a repository share.
func commonDir(git string) string {
	text, err := os.ReadFile(git) // fails for a folder
	if err != nil {
		return git
	}
	dir, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if !ok {
		return git
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(filepath.Dir(git), dir)
	}
	if text, err = os.ReadFile(filepath.Join(dir, "commondir")); err != nil {
		return dir
	}
	common := strings.TrimSpace(string(text))
	if !filepath.IsAbs(common) {
		common = filepath.Join(dir, common)
	}
	return common
}

var excludesFile = regexp.MustCompile(`(?im)^[ \t]*excludesfile[ \t]*=[ \t]*"?[ \t]*(\S+?)[ \t]*"?[ \t]*$`)

// globalRules returns the rules of git's excludesFile.
func globalRules() rules {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return nil
	}
	for _, name := range []string{filepath.Join(home, ".gitconfig"), filepath.Join(config, "git/config")} {
		text, err := os.ReadFile(name)
		if m := excludesFile.FindSubmatch(text); err == nil && m != nil {
			return readRules(strings.Replace(string(m[1]), "~", home, 1))
		}
	}
	return readRules(filepath.Join(config, "git/ignore"))
}

// folder walks a folder. prefix is its name as printed, with a slash.
func (w *walker) folder(parent *folder, prefix, abs string) error {
	entries, err := os.ReadDir(strings.TrimSuffix(prefix, "/") + "/")
	if err != nil {
		w.failed = err
		if len(entries) == 0 {
			return nil
		}
	}
	at := w.enter(parent, abs, entries)
	for _, e := range entries {
		isDir := e.IsDir()
		if !isDir && !e.Type().IsRegular() || w.skips(at, prefix, e.Name(), isDir) {
			continue
		}
		name := prefix + e.Name()
		if isDir {
			if err := w.folder(at, name+"/", at.abs+"/"+e.Name()); err != nil {
				return err
			}
			continue
		}
		f := file{name: name}
		if w.o.sort != "" && w.o.sort != "path" {
			info, err := e.Info()
			if err != nil {
				continue // it was removed meanwhile
			}
			f.time = w.timeOf(info)
		}
		if err := w.visited(f); err != nil {
			return err
		}
	}
	return nil
}

// skips reports whether an entry of a folder is left out. The globs of the
// arguments come first, then the ignore files, then the types.
func (w *walker) skips(at *folder, prefix, name string, dir bool) bool {
	if len(w.globs) > 0 {
		given := w.globs.judge(strings.TrimPrefix(relative(w.cwd, at.abs, prefix)+name, "./"), dir)
		switch {
		case given == keep:
			return false
		case given == ignore || w.only && !dir:
			return true
		}
	}
	if w.judge(at, name, dir) == ignore {
		return true
	}
	return len(w.types) > 0 && !dir && !slices.ContainsFunc(w.types, func(match glob) bool { return match(name) })
}

// relative returns the folder's path relative to the working directory, with a
// trailing slash, or the path as printed if the folder is not below it.
func relative(cwd, abs, prefix string) string {
	cwd = strings.TrimSuffix(cwd, "/")
	if abs == cwd {
		return ""
	}
	if rest, ok := strings.CutPrefix(abs, cwd+"/"); ok {
		return rest + "/"
	}
	return strings.TrimPrefix(prefix, "/")
}

// judge applies the ignore files to an entry of a folder. For each kind of ignore file,
// the deepest with a matching line decides. A .gitignore above a repository's root is
// not applied.
func (w *walker) judge(at *folder, name string, dir bool) verdict {
	var found [4]verdict
	inside := true // the repository's root has not been reached
	full := at.abs + "/" + name
	for f := at; f != nil; f = f.parent {
		for kind, r := range f.kinds {
			if f.ruled && found[kind] == none && len(r) > 0 && (inside || kind < 2) {
				found[kind] = r.judge(full[len(f.abs)+1:], dir)
			}
		}
		inside = inside && !f.git
	}
	for _, v := range found {
		if v != none {
			return v
		}
	}
	if len(w.global) > 0 {
		return w.global.judge(relative(w.cwd, at.abs, at.abs+"/")+name, dir)
	}
	return none
}

// timeOf returns the time by which files are sorted.
func (w *walker) timeOf(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || w.o.sort == "modified":
		return info.ModTime()
	case w.o.sort == "accessed":
		return time.Unix(st.Atim.Unix())
	}
	return time.Unix(st.Ctim.Unix()) // birth times are not portable
}
