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

// hostTree is the files of this host.
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

func (hostTree) Stands(name string) bool {
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

// TempDirs are where temporary files go, by the environment's word too.
func TempDirs(getenv func(string) string) []string {
	dirs := slices.Clone(sandboxpolicy.TempFolders)
	if t := getenv("TMPDIR"); path.IsAbs(t) && path.Clean(t) != "/" {
		dirs = append(dirs, path.Clean(t))
	}
	return dirs
}

// socketFolders hold the sockets of services, which lead out of the sandbox
// whatever its network is.
func socketFolders(uid int) []string {
	id := strconv.Itoa(uid)
	return []string{"/run", "/var/run", "/tmp/.X11-unix", "/tmp/.ICE-unix", "/tmp/tmux-" + id, "/tmp/.tmux-" + id}
}

// keptFiles are wanted in what is masked.
var keptFiles = []string{"/etc/resolv.conf", "/run/current-system", "/run/wrappers", "/run/opengl-driver"}

// Sockets are the paths to mask: the folders of sockets, and each unix socket
// of this network namespace that has a path. Those that sandboxed commands make
// are in namespaces of their own, and stay.
func Sockets() []string {
	masked := socketFolders(os.Getuid())
	list, err := read("/proc/net/unix")
	if err != nil {
		return masked
	}
	for in := bufio.NewScanner(bytes.NewReader(list)); in.Scan(); {
		// The path is the eighth field, and may have spaces.
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

// read reads a file. The os package would watch it for events, and start a thread
// for that.
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

// ignoreFile names what is hidden from agents.
const ignoreFile = ".cursorignore"

// maxNear is the most folders of a root that are looked into before a command.
const maxNear = 256

// nearby is a folder of a root, or one in it, and what of interest it holds.
type nearby struct {
	path         string
	git, ignores bool
}

// near are the folders of a root, and those in them, that are no links: where
// repositories and ignore files beside the root's own are looked for. It goes no
// deeper, for else the whole tree would have to be searched before each command.
func near(root string) []nearby {
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

// folders reads a folder, and returns those in it.
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

// look asks what a folder holds without reading it.
func (n *nearby) look() { n.git, n.ignores = has(n.path, ".git"), has(n.path, ignoreFile) }

// has reports whether something of that name is in a folder.
func has(dir, name string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir+"/"+name, &st) == nil
}

// Hidden returns what the .cursorignore of a root, and those below it, hide.
// Where the root has none, those of the folders near it count.
func Hidden(root string) ([]string, error) { return hidden(root, near(root)) }

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

// hiddenBelow searches a whole tree.
func hiddenBelow(root string) ([]string, error) {
	var ignore sandboxpolicy.Ignore
	var hidden []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what this user cannot list, no command of theirs can
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
			return nil //nolint:nilerr // there is none
		}
		if rel == "." {
			rel = ""
		}
		ignore.Add(rel, string(text))
		return nil
	})
	return hidden, err
}

// streams are the descriptors 0, 1 and 2 that are files with a name.
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

// folderStreams reports whether a standard descriptor is a folder, from which
// one could walk around the mounts.
func folderStreams() bool {
	for fd := range 3 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return true
		}
	}
	return false
}

// HostTree is the files of this host, for Plan.
var HostTree Tree = hostTree{}

// PlanHere plans for this host, which it probes.
func PlanHere(spec Spec) (Layout, error) { return Plan(spec, Probe(), HostTree) }
