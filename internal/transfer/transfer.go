// Package transfer copies files and folders between this computer and a
// machine, over sftp. What a machine says of its files is not believed: names
// are checked, nothing is written outside the folder that was named, links that
// lead out of it and special files are left out, and no file becomes set-user-id.
package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/pkg/sftp"
)

// maxDepth bounds how deep folders of a machine may be nested.
const maxDepth = 200

// modeBits are what is kept of a file's mode.
const modeBits = fs.ModePerm

// Report is what a copy did.
type Report struct {
	Files   int
	Bytes   int64
	Skipped []string // with the reason
}

func (r *Report) skip(name, why string) { r.Skipped = append(r.Skipped, name+": "+why) }

// Get copies a file or folder of the machine to a path of this computer. Where
// that is a folder it goes into it, under its own name.
func Get(c *sftp.Client, remote, local string) (Report, error) {
	var r Report
	info, err := c.Stat(remote)
	if err != nil {
		return r, fmt.Errorf("%s in the machine: %w", remote, err)
	}
	if here, err := os.Stat(local); err == nil && here.IsDir() {
		name, err := c.RealPath(remote)
		if err != nil {
			return r, fmt.Errorf("%s in the machine: %w", remote, err)
		}
		if name = path.Base(name); !safe(name) {
			return r, fmt.Errorf("%s in the machine: give the copy a name", remote)
		}
		local = filepath.Join(local, name)
	} else if strings.HasSuffix(local, string(filepath.Separator)) {
		return r, fmt.Errorf("%s: %w", local, fs.ErrNotExist)
	}
	parent, name := filepath.Split(filepath.Clean(local))
	if parent == "" {
		parent = "."
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return r, err
	}
	defer root.Close()
	g := getter{c: c, root: root, top: name, r: &r}
	switch {
	case info.IsDir():
		err = g.folder(remote, name, info.Mode(), 0)
	case info.Mode().IsRegular():
		err = g.file(remote, name, info.Mode())
	default:
		err = fmt.Errorf("%s in the machine is no file and no folder", remote)
	}
	return r, err
}

// safe reports whether a name that a machine gave can be one of a file here.
func safe(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00"+string(filepath.Separator)) && filepath.IsLocal(name)
}

type getter struct {
	c    *sftp.Client
	root *os.Root // holds the destination
	top  string   // the destination's name in it
	r    *Report
}

func (g *getter) folder(remote, local string, mode fs.FileMode, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s in the machine: folders are nested deeper than %d", remote, maxDepth)
	}
	if err := g.root.Mkdir(local, 0o700); err != nil {
		if info, statErr := g.root.Lstat(local); !errors.Is(err, fs.ErrExist) || statErr != nil || !info.IsDir() {
			return err
		}
	}
	entries, err := g.c.ReadDir(remote)
	if err != nil {
		return fmt.Errorf("%s in the machine: %w", remote, err)
	}
	for _, e := range entries {
		if !safe(e.Name()) {
			g.r.skip(fmt.Sprintf("%q", e.Name()), "no name for a file")
			continue
		}
		from, to := path.Join(remote, e.Name()), filepath.Join(local, e.Name())
		switch {
		case e.IsDir():
			err = g.folder(from, to, e.Mode(), depth+1)
		case e.Mode().IsRegular():
			err = g.file(from, to, e.Mode())
		case e.Mode()&fs.ModeSymlink != 0:
			err = g.link(from, to)
		default:
			g.r.skip(from, "a special file")
		}
		if err != nil {
			return err
		}
	}
	return g.root.Chmod(local, mode&modeBits|0o700)
}

func (g *getter) file(remote, local string, mode fs.FileMode) error {
	in, err := g.c.Open(remote)
	if err != nil {
		return fmt.Errorf("%s in the machine: %w", remote, err)
	}
	defer in.Close()
	// A link that stands here already is not written through.
	if info, err := g.root.Lstat(local); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: it exists, and is no file", local)
	}
	out, err := g.root.OpenFile(local, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, in)
	g.r.Bytes += n
	if err = errors.Join(err, out.Chmod(mode&modeBits), out.Close()); err != nil {
		return fmt.Errorf("%s in the machine: %w", remote, err)
	}
	g.r.Files++
	return nil
}

// link makes a link that stays within what is copied.
func (g *getter) link(remote, local string) error {
	to, err := g.c.ReadLink(remote)
	if err != nil {
		return fmt.Errorf("%s in the machine: %w", remote, err)
	}
	if !g.within(local, to) {
		g.r.skip(remote, "a link that leads out of what is copied")
		return nil
	}
	if info, err := g.root.Lstat(local); err == nil {
		if info.Mode()&fs.ModeSymlink == 0 {
			return fmt.Errorf("%s: it exists, and is no link", local)
		}
		if err := g.root.Remove(local); err != nil {
			return err
		}
	}
	return g.root.Symlink(to, local)
}

// within reports whether a link that stands at local leads to something within
// what is copied.
func (g *getter) within(local, to string) bool {
	// After another link, ".." is not what it seems: it may only lead the way.
	if path.IsAbs(to) || filepath.IsAbs(to) || strings.ContainsRune(to, 0) || path.Clean(to) != strings.TrimSuffix(to, "/") {
		return false
	}
	inside, err := filepath.Rel(g.top, filepath.Join(filepath.Dir(local), filepath.FromSlash(to)))
	return err == nil && (inside == "." || filepath.IsLocal(inside))
}

// Put copies a file or folder of this computer to a path of the machine. Where
// that is a folder it goes into it, under its own name.
func Put(c *sftp.Client, local, remote string) (Report, error) {
	var r Report
	info, err := os.Stat(local)
	if err != nil {
		return r, err
	}
	if there, err := c.Stat(remote); err == nil && there.IsDir() {
		whole, err := filepath.Abs(local)
		if err != nil {
			return r, err
		}
		remote = path.Join(remote, filepath.Base(whole))
	}
	if !info.IsDir() {
		return r, put(c, local, remote, info, &r)
	}
	// The link itself may be what was named; its folder is meant.
	if local, err = filepath.EvalSymlinks(local); err != nil {
		return r, err
	}
	modes := map[string]fs.FileMode{} // set last, since a folder may be read-only
	err = filepath.WalkDir(local, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(local, file)
		if err != nil {
			return err
		}
		to := path.Join(remote, filepath.ToSlash(rel))
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			modes[to] = info.Mode()
			if there, err := c.Stat(to); err == nil && there.IsDir() {
				return nil
			}
			return there(to, c.Mkdir(to))
		case info.Mode().IsRegular():
			return put(c, file, to, info, &r)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(file)
			if err != nil {
				return err
			}
			if old, err := c.Lstat(to); err == nil && old.Mode()&fs.ModeSymlink != 0 {
				if err := c.Remove(to); err != nil {
					return there(to, err)
				}
			}
			return there(to, c.Symlink(filepath.ToSlash(target), to))
		}
		r.skip(file, "a special file")
		return nil
	})
	for to, mode := range modes {
		if err == nil {
			err = there(to, c.Chmod(to, mode&modeBits))
		}
	}
	return r, err
}

func put(c *sftp.Client, local, remote string, info fs.FileInfo, r *Report) error {
	in, err := os.Open(local)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.OpenFile(remote, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return there(remote, err)
	}
	n, err := io.Copy(out, in)
	r.Bytes += n
	if err = errors.Join(err, out.Chmod(info.Mode()&modeBits), out.Close()); err != nil {
		return there(remote, err)
	}
	r.Files++
	return nil
}

// there says that an error is of the machine's file.
func there(remote string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s in the machine: %w", remote, err)
}
