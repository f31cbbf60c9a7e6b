package image

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/control/image/unpack"
)

// A view reads stacked layers as an overlay would show them, but without
// mounting. Whatever links the layers contain, it never reads files outside of
// them.
type view []string // directories, topmost first

// maxLinks is the maximum number of links followed for one path, as in the
// kernel.
const maxLinks = 40

// maxConfig is the maximum size in bytes of a configuration file of an image to which
// the server adds lines.
const maxConfig = 1 << 20

// resolve follows the links in name (relative to the root) and returns the
// resulting path without links, which need not exist.
func (v view) resolve(name string) string {
	todo := strings.Split(path.Clean(name), "/")
	done := ""
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if done = path.Dir(done); done == "." {
				done = ""
			}
			continue
		}
		next := path.Join(done, part)
		dir, info := v.lookup(next)
		if info == nil || info.Mode().Type() != fs.ModeSymlink || links == maxLinks {
			done = next
			continue
		}
		links++
		target, err := os.Readlink(filepath.Join(dir, next))
		if err != nil {
			done = next
			continue
		}
		if path.IsAbs(target) {
			done = ""
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return done
}

// lookup returns the layer and file info of name, none of whose parents may be
// a link. It returns nil info if there is no such file.
func (v view) lookup(name string) (layer string, info fs.FileInfo) {
	for _, dir := range v {
		hidden := false
		for end := range len(name) + 1 {
			if end < len(name) && name[end] != '/' {
				continue
			}
			p := filepath.Join(dir, name[:end])
			got, err := os.Lstat(p)
			if err != nil {
				break
			}
			if end == len(name) {
				if isWhiteout(got) {
					return "", nil
				}
				return dir, got
			}
			if !got.IsDir() {
				return "", nil // hidden by a file or whiteout of a higher layer
			}
			hidden = hidden || isOpaque(p)
		}
		if hidden {
			return "", nil
		}
	}
	return "", nil
}

// read returns a file's content, or nil if name is not a regular file or is too
// large.
func (v view) read(name string) []byte {
	name = v.resolve(name)
	dir, info := v.lookup(name)
	if info == nil || !info.Mode().IsRegular() {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	f, err := root.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil || len(data) > maxConfig {
		return nil
	}
	return data
}

func isWhiteout(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

func isOpaque(dir string) bool {
	var b [1]byte
	n, err := unix.Lgetxattr(dir, unpack.OpaqueAttr, b[:])
	return err == nil && n == 1 && b[0] == 'y'
}
