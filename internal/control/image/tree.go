package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A tree is a small generated file system. It is a value, so that it can be
// digested, tested and written.
type tree struct{ entries map[string]entry }

type entry struct {
	mode  fs.FileMode // with type and sticky bit; whiteout hides lower layers' entries of that path
	id    int         // owner
	group int
	data  []byte    // if set, the host's file to copy instead of data
	from  string    // the file of the host to copy, instead of data
	time  time.Time // modification time of that file
}

// whiteout is the mode of an entry that hides the entry of lower layers with
// the same path.
const whiteout = fs.ModeDevice | fs.ModeCharDevice

func (t *tree) addEntry(name string, e entry) {
	if t.entries == nil {
		t.entries = map[string]entry{}
	}
	t.entries[name] = e
}

// dir adds a directory. Missing parents are created with owner root and mode
// 0755.
func (t *tree) dir(name string, mode fs.FileMode, id int) {
	t.parents(name)
	t.addEntry(name, entry{mode: fs.ModeDir | mode, id: id, group: id})
}

func (t *tree) file(name string, mode fs.FileMode, id int, data []byte) {
	t.parents(name)
	t.addEntry(name, entry{mode: mode, id: id, group: id, data: data})
}

// has reports whether the tree has an entry with that name.
func (t *tree) has(name string) bool {
	_, ok := t.entries[name]
	return ok
}

// like adds a directory of the host and its parents, with their owners and
// modes but without content. It does not change directories that the tree
// already has. It returns false if the host lacks the directory or some users
// may not enter it.
func (t *tree) like(host *os.Root, name string) bool {
	if name == "." || t.has(name) {
		return true
	}
	info, err := host.Lstat(name)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o005 != 0o005 || !t.like(host, path.Dir(name)) {
		return false
	}
	e := entry{mode: info.Mode()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		e.id, e.group = int(st.Uid), int(st.Gid)
	}
	t.addEntry(name, e)
	return true
}

// hide hides a file or folder of a lower layer.
func (t *tree) hide(host *os.Root, name string) {
	if t.like(host, path.Dir(name)) && !t.has(name) {
		t.addEntry(name, entry{mode: whiteout})
	}
}

// copyAllLater calls copyLater for a file, or for all files in a directory and
// below. A missing path adds nothing.
func (t *tree) copyAllLater(host *os.Root, name string) error {
	info, err := host.Lstat(name)
	if err != nil || !info.IsDir() {
		t.copyLater(host, name)
		return nil //nolint:nilerr // not every host has it
	}
	entries, err := fs.ReadDir(host.FS(), name)
	if err != nil {
		return err
	}
	t.like(host, name)
	for _, e := range entries {
		if e.Type() == fs.ModeSymlink {
			err = t.copyIn(host, path.Join(name, e.Name()))
		} else {
			err = t.copyAllLater(host, path.Join(name, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyLater adds a world-readable file of the host. Only its name, size and
// time are part of the tree's digest, so large files are read only when the
// tree is written.
func (t *tree) copyLater(host *os.Root, name string) {
	info, err := host.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o004 == 0 || !t.like(host, path.Dir(name)) {
		return
	}
	e := entry{mode: info.Mode().Perm(), from: filepath.Join(host.Name(), name), time: info.ModTime()}
	e.data = fmt.Appendf(nil, "%s %d %d", e.from, info.Size(), e.time.UnixNano())
	t.addEntry(name, e)
}

func (t *tree) link(name, target string) {
	t.parents(name)
	t.addEntry(name, entry{mode: fs.ModeSymlink | 0o777, data: []byte(target)})
}

func (t *tree) parents(name string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := t.entries[dir]; !ok {
			t.addEntry(dir, entry{mode: fs.ModeDir | 0o755})
		}
	}
}

// names returns the paths sorted so that a directory precedes its content.
func (t *tree) names() []string {
	names := make([]string, 0, len(t.entries))
	for n := range t.entries {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// digest writes an unambiguous encoding of the tree.
func (t *tree) digest(w io.Writer) {
	field := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		_, _ = w.Write(n[:]) // writing to a hash never fails
		_, _ = w.Write(b)
	}
	for _, name := range t.names() {
		e := t.entries[name]
		field([]byte(name))
		field(fmt.Appendf(nil, "%d %d %d", e.mode, e.id, e.group))
		field(e.data)
	}
}

// write writes the tree into dir, which must be empty and trusted. No entry of a tree
// is below a link.
func (t *tree) write(dir string) error {
	for _, name := range t.names() {
		if err := t.entries[name].write(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

func (e entry) write(path string) error {
	switch e.mode.Type() {
	case fs.ModeSymlink:
		return os.Symlink(string(e.data), path)
	case whiteout:
		return unix.Mknod(path, unix.S_IFCHR, 0)
	case fs.ModeDir:
		err := os.Mkdir(path, 0o755)
		return errors.Join(err, os.Lchown(path, e.id, e.group), os.Chmod(path, e.mode&^fs.ModeType))
	}
	// A hard link is many times faster than a copy. It is safe because layers
	// never change: programs replace these files instead of writing into them.
	if e.from != "" && os.Link(e.from, path) == nil {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if e.from == "" {
		_, err = f.Write(e.data)
	} else {
		err = e.copyTo(f)
	}
	return errors.Join(err, f.Chown(e.id, e.group), f.Chmod(e.mode), f.Close())
}

// copyTo copies the file of the host with its time: apt asks a server only for
// newer files.
func (e entry) copyTo(to *os.File) error {
	from, err := os.Open(e.from)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return os.Chtimes(to.Name(), e.time, e.time)
}

// copyIn adds a file, link or directory of the host with all its content and
// modes. It skips files that are not world-readable, so that no machine sees
// them. A missing path adds nothing.
func (t *tree) copyIn(host *os.Root, name string) error {
	info, err := host.Lstat(name)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := host.Readlink(name)
		if err != nil {
			return err
		}
		t.link(name, target)
	case info.IsDir() && info.Mode().Perm()&0o005 == 0o005:
		t.dir(name, info.Mode().Perm(), 0)
		entries, err := fs.ReadDir(host.FS(), name)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := t.copyIn(host, path.Join(name, e.Name())); err != nil {
				return err
			}
		}
	case info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 && info.Size() <= maxCopied:
		data, err := host.ReadFile(name)
		if err != nil {
			return err
		}
		t.file(name, info.Mode().Perm(), 0, data)
	}
	return nil
}

// maxCopied is the maximum size of a file copied from the host's /etc and of the
// package database that is read.
const maxCopied = 4 << 20

func lines(l ...string) []byte { return []byte(strings.Join(l, "\n") + "\n") }
