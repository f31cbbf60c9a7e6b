package image

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// A tree is a small generated file system. It is a value, so that it can be
// digested, tested and written.
type tree struct{ entries map[string]entry }

type entry struct {
	mode fs.FileMode // with type and sticky bit
	id   int         // owner and group
	data []byte      // a file's content or a link's target
}

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
	t.addEntry(name, entry{mode: fs.ModeDir | mode, id: id})
}

func (t *tree) file(name string, mode fs.FileMode, id int, data []byte) {
	t.parents(name)
	t.addEntry(name, entry{mode: mode, id: id, data: data})
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
		field(fmt.Appendf(nil, "%d %d", e.mode, e.id))
		field(e.data)
	}
}

// write writes the tree into dir, which must be empty and trusted.
func (t *tree) write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, name := range t.names() {
		if err := t.writeOne(root, name, t.entries[name]); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

func (t *tree) writeOne(root *os.Root, name string, e entry) error {
	switch e.mode.Type() {
	case fs.ModeSymlink:
		return root.Symlink(string(e.data), name)
	case fs.ModeDir:
		if err := root.Mkdir(name, 0o755); err != nil {
			return err
		}
	default:
		if err := root.WriteFile(name, e.data, 0o600); err != nil {
			return err
		}
	}
	if err := root.Lchown(name, e.id, e.id); err != nil {
		return err
	}
	return root.Chmod(name, e.mode&^fs.ModeType)
}

// copyIn adds a file, link or directory of the host with all its content and
// modes. It skips what is not world-readable, so that no machine sees it. A
// missing path adds nothing.
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
		t.link(path.Join("etc", name), target)
	case info.IsDir() && info.Mode().Perm()&0o005 == 0o005:
		t.dir(path.Join("etc", name), info.Mode().Perm(), 0)
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
		t.file(path.Join("etc", name), info.Mode().Perm(), 0, data)
	}
	return nil
}

// maxCopied is the maximum size of a file copied from the host's /etc.
const maxCopied = 4 << 20

func lines(l ...string) []byte { return []byte(strings.Join(l, "\n") + "\n") }
