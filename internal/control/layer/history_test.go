package layer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// picture describes everything visible in a tree, by path. A hard link is
// described by the first path of its file.
type picture map[string]string

// look returns the picture of the tree at root. It notes which files have
// holes: they use less disk space than their length.
func look(t testing.TB, root string) picture {
	t.Helper()
	p, first := picture{}, map[inode]string{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		is := fmt.Sprintf("%s %d:%d %d", info.Mode(), st.Uid, st.Gid, info.ModTime().UnixNano())
		switch info.Mode().Type() {
		case 0:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			is += fmt.Sprintf(" %d %x holes=%v", len(data), sha256.Sum256(data), len(data) >= 1<<20 && st.Blocks*512 < int64(len(data))/2)
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			is += " -> " + target
		case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
			is += fmt.Sprintf(" %x", st.Rdev)
		}
		attrs, err := xattrs(path)
		if err != nil {
			return err
		}
		for _, k := range slices.Sorted(maps.Keys(attrs)) {
			if !strings.HasPrefix(k, overlayAttrs) {
				is += fmt.Sprintf(" %s=%q", k, attrs[k])
			}
		}
		if !info.IsDir() {
			key := inode{st.Dev, st.Ino}
			if at, ok := first[key]; ok {
				is += " == " + at
			} else {
				first[key] = name
			}
		}
		p[name] = is
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// same fails the test unless the pictures are equal.
func same(t testing.TB, what string, want, got picture) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		// A file of zeros may have holes after the import.
		if got[name] != want[name] && got[name] != strings.Replace(want[name], "holes=false", "holes=true", 1) {
			t.Errorf("%s: %q\n was %s\n is  %s", what, name, want[name], got[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %q was not there and is %s", what, name, got[name])
		}
	}
}

// A scribe makes all kinds of random changes to a tree that machines make. It
// follows links with arbitrary targets, so it writes through an [os.Root]. It
// opens only regular files, because it also creates devices.
type scribe struct {
	r    *rand.Rand
	root *os.Root
}

func newScribe(t testing.TB, r *rand.Rand, dir string) *scribe {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &scribe{r, root}
}

var names = []string{
	"a", "b", "c", "d", "e", "etc", "with space", "\xff\xfe", "-rf", ".wh.a", ".wh..wh..opq", "new\nline", "ä", strings.Repeat("n", 200),
}

// place returns a random path, which need not exist.
func (s *scribe) place() string {
	path := "."
	for range 1 + s.r.IntN(3) {
		path = filepath.Join(path, names[s.r.IntN(len(names))])
	}
	return path
}

// some returns a random existing path, or "." if there is none.
func (s *scribe) some() string {
	var all []string
	_ = filepath.WalkDir(s.root.Name(), func(path string, _ fs.DirEntry, err error) error {
		if name, e := filepath.Rel(s.root.Name(), path); e == nil {
			all = append(all, name)
		}
		return err
	})
	return all[s.r.IntN(len(all))]
}

// expected lists errors that a scribe may get, because it does not check before
// acting.
var expected = []error{
	unix.ENOENT, unix.EEXIST, unix.ENOTDIR, unix.EISDIR, unix.ENOTEMPTY, unix.EXDEV, unix.EINVAL, unix.EPERM, unix.EBUSY,
	unix.ENOTSUP, unix.EACCES, unix.ELOOP, unix.ENAMETOOLONG, unix.ENXIO,
}

// write makes one random change. Forbidden changes are not errors.
func (s *scribe) write(t testing.TB) {
	t.Helper()
	path, other := s.place(), s.some()
	op := s.r.IntN(20)
	err := s.do(op, path, other)
	// os.Root returns its own error for a path that leads out of the root.
	if err != nil && !strings.Contains(err.Error(), "path escapes") &&
		!slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		t.Fatalf("op %d on %q, %q: %v", op, path, other, err)
	}
}

func (s *scribe) do(op int, path, other string) error {
	switch op {
	case 0, 1, 2:
		return s.file(path, os.O_CREATE|os.O_TRUNC, func(f *os.File) error {
			_, err := f.Write(s.bytes(9000))
			return errors.Join(err, f.Chmod(fs.FileMode(s.r.IntN(0o1000))))
		})
	case 3, 4:
		return s.root.MkdirAll(path, 0o755)
	case 5, 6:
		return s.root.RemoveAll(other)
	case 7:
		return s.root.Symlink([]string{"a", "/etc/none", "../../..", "b/c", strings.Repeat("x", 300)}[s.r.IntN(5)], path)
	case 8, 9:
		return s.root.Link(other, path)
	case 10:
		return s.root.Rename(other, path)
	case 11:
		return s.root.Lchown(other, s.r.IntN(70000), s.r.IntN(70000))
	case 12:
		if info, err := s.root.Lstat(other); err != nil || info.Mode().Type() == fs.ModeSymlink {
			return err
		}
		return s.root.Chmod(other, fs.FileMode(s.r.IntN(0o1000))|[]fs.FileMode{0, fs.ModeSetuid, fs.ModeSetgid, fs.ModeSticky}[s.r.IntN(4)])
	case 13:
		attr, value := []string{"user.a", "user.x=y", "user.overlay.opaque", "security.capability"}[s.r.IntN(4)], s.bytes(100)
		if attr == "security.capability" { // cap_net_bind_service=ep
			value = []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		}
		return s.at(other, func(fd int, base string) error {
			return unix.Lsetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", fd, base), attr, value, 0)
		})
	case 14:
		// The device numbers are reserved for experiments.
		mode := []uint32{unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK}[s.r.IntN(4)]
		dev := unix.Mkdev(60, uint32(s.r.IntN(300)))
		return s.at(path, func(fd int, base string) error { return unix.Mknodat(fd, base, mode|0o640, int(dev)) })
	case 15:
		return s.file(path, os.O_CREATE, func(f *os.File) error { // this file is mostly a hole
			_, err := f.WriteAt([]byte("end"), 1<<20+s.r.Int64N(1<<20))
			return err
		})
	case 16:
		ts, err := unix.TimeToTimespec(time.Unix(s.r.Int64N(2_000_000_000), s.r.Int64N(1_000_000_000)))
		if err != nil {
			return err
		}
		return s.at(other, func(fd int, base string) error {
			return unix.UtimesNanoAt(fd, base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
		})
	case 17, 18: // make a directory opaque
		info, err := s.root.Lstat(other)
		if err != nil || !info.IsDir() || other == "." {
			return err
		}
		if err := s.root.RemoveAll(other); err != nil {
			return err
		}
		return s.root.Mkdir(other, 0o751)
	}
	return s.file(other, os.O_APPEND, func(f *os.File) error {
		_, err := f.WriteString("more")
		return err
	})
}

func (s *scribe) bytes(limit int) []byte {
	data := make([]byte, s.r.IntN(limit))
	for i := range data {
		data[i] = byte(s.r.Uint32())
	}
	return data
}

// file opens the file at path and calls a function with it, if the path is a
// regular file or does not exist.
func (s *scribe) file(path string, flags int, do func(*os.File) error) error {
	switch info, err := s.root.Lstat(path); {
	case err != nil && (!errors.Is(err, fs.ErrNotExist) || flags&os.O_CREATE == 0):
		return err
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	f, err := s.root.OpenFile(path, flags|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// at calls do with a path's parent directory and base name.
func (s *scribe) at(path string, do func(fd int, base string) error) error {
	if path == "." {
		return nil
	}
	dir, err := s.root.OpenFile(filepath.Dir(path), unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if info, err := dir.Stat(); err != nil || !info.IsDir() {
		return err
	}
	return do(int(dir.Fd()), filepath.Base(path))
}
