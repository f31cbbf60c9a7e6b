package sandbox

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	sandboxpolicy "aloft/internal/policy/sandbox"
)

// hostTree is the file system of this host.
type hostTree struct{}

func (hostTree) Kind(name string) Kind {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil {
		return None
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFLNK:
		return Link
	}
	return Other
}

func (hostTree) Names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

func (hostTree) IsPlaceholder(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil && isPlaceholder(&st)
}

func (hostTree) Resolve(name string) string {
	full, err := filepath.EvalSymlinks(name)
	if err != nil {
		return ""
	}
	return full
}

// TempDirs returns the folders for temporary files, including the environment's
// TMPDIR.
func TempDirs(getenv func(string) string) []string {
	dirs := slices.Clone(sandboxpolicy.TempFolders)
	if t := getenv("TMPDIR"); path.IsAbs(t) && path.Clean(t) != "/" {
		dirs = append(dirs, path.Clean(t))
	}
	return dirs
}

// socketFolders returns folders with the sockets of services. Through these
// sockets a command could leave the sandbox, whatever its network policy is.
func socketFolders(uid int) []string {
	id := strconv.Itoa(uid)
	return []string{"/run", "/var/run", "/tmp/.X11-unix", "/tmp/.ICE-unix", "/tmp/tmux-" + id, "/tmp/.tmux-" + id}
}

// keptFiles must stay readable although they may be in masked folders.
var keptFiles = []string{"/etc/resolv.conf", "/run/current-system", "/run/wrappers", "/run/opengl-driver"}

// Sockets returns the paths to mask: the folders of sockets, and each unix
// socket of this network namespace that has a path. Sandboxed commands have
// their own network namespaces, so their sockets are not masked.
func Sockets() []string {
	masked := socketFolders(os.Getuid())
	list, err := read("/proc/net/unix")
	if err != nil {
		return masked
	}
	for in := bufio.NewScanner(bytes.NewReader(list)); in.Scan(); {
		// The path is the eighth field and may contain spaces.
		rest := in.Text()
		for range 7 {
			_, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		}
		if !strings.HasPrefix(rest, "/") {
			continue
		}
		var st unix.Stat_t
		if unix.Lstat(rest, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			masked = append(masked, path.Clean(rest))
		}
	}
	return masked
}

// read reads a file. Package os would register the file for polling, which
// starts a thread.
func read(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	text := make([]byte, 0, 8<<10)
	for {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return text, nil
		default:
			text = slices.Grow(text[:len(text)+n], 4<<10)
		}
	}
}

// ignoreFile lists the files that are hidden from agents.
const ignoreFile = ".cursorignore"

// maxNear limits the number of a root's folders that are searched before a command.
const maxNear = 256

// nearby is a root folder or one of its direct subfolders, with the
// repositories and ignore files found in it.
type nearby struct {
	path         string
	git, ignores bool
}

// nearbyFiles returns a root folder and its direct subfolders, without links. They are
// searched for repositories and ignore files. A deeper search would have to
// read the whole tree before each command.
func nearbyFiles(root string) []nearby {
	_, all := folders(root)
	for i := range all[:min(len(all), maxNear)] {
		if len(all) >= maxNear {
			all[i].look()
			continue
		}
		var more []nearby
		all[i], more = folders(all[i].path)
		all = append(all, more...)
		for n := range more {
			all[len(all)-1-n].look()
		}
	}
	for i := range all[min(len(all), maxNear):] {
		all[i].look()
	}
	return all
}

// folders reads a folder and returns its subfolders.
func folders(dir string) (at nearby, in []nearby) {
	at.path = dir
	entries, err := os.ReadDir(dir)
	if err != nil {
		return at, nil
	}
	for _, e := range entries {
		at.git = at.git || e.Name() == ".git"
		at.ignores = at.ignores || e.Name() == ignoreFile
		if e.IsDir() && e.Name() != ".git" {
			in = append(in, nearby{path: dir + "/" + e.Name()})
		}
	}
	return at, in
}

// look checks what a folder contains without listing it.
func (n *nearby) look() { n.git, n.ignores = has(n.path, ".git"), has(n.path, ignoreFile) }

// has reports whether a folder has an entry with that name.
func has(dir, name string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir+"/"+name, &st) == nil
}

// hidden returns the paths that the .cursorignore files in and below a root hide. If the
// root itself has none, only the files in its direct subfolders count.
func hidden(root string, near []nearby) ([]string, error) {
	if has(root, ignoreFile) {
		return hiddenBelow(root)
	}
	var all []string
	for _, dir := range near {
		if !dir.ignores || slices.ContainsFunc(all, func(h string) bool { return sandboxpolicy.Below(h, dir.path) }) {
			continue
		}
		more, err := hiddenBelow(dir.path)
		if err != nil {
			return nil, err
		}
		for _, name := range more {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// hiddenBelow returns the paths in the tree root that its .cursorignore hides.
func hiddenBelow(root string) ([]string, error) {
	var ignore sandboxpolicy.Ignore
	var hidden []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a command cannot list it either
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if rel != "." && ignore.Match(rel, d.IsDir()) {
			hidden = append(hidden, name)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.IsDir() {
			return nil
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		text, err := read(filepath.Join(name, ignoreFile))
		if err != nil {
			return nil //nolint:nilerr // there is no such file
		}
		if rel == "." {
			rel = ""
		}
		ignore.Add(rel, string(text))
		return nil
	})
	return hidden, err
}

// streams returns the files behind the descriptors 0, 1 and 2 that have names.
func streams() []Stream {
	var all []Stream
	for fd := range 3 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			continue
		}
		mode := flags & unix.O_ACCMODE
		s := Stream{FD: fd, Read: mode != unix.O_WRONLY, Write: mode != unix.O_RDONLY}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG, unix.S_IFCHR, unix.S_IFIFO:
			all = append(all, s)
		}
	}
	return all
}

// folderStreams reports whether a standard descriptor is a folder. Through a folder, a
// command could bypass the mounts.
func folderStreams() bool {
	for fd := range 3 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return true
		}
	}
	return false
}

// HostTree is this host's file system, for Plan.
var HostTree Tree = hostTree{}

// PlanHere makes a plan for this host, after probing it.
func PlanHere(spec Spec) (Layout, error) { return Plan(spec, Probe(), HostTree) }
