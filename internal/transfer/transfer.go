// Package transfer copies files and folders between this computer and a machine, over
// sftp. The machine's data about its files is untrusted: names are validated, nothing is
// written outside the destination folder, links that lead out of that folder and special
// files are skipped, and set-user-id bits are dropped.
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

// maxDepth limits how deep a machine's folders may be nested.
const maxDepth = 200

// modeBits are the bits of a file's mode that are copied.
const modeBits = fs.ModePerm

// Report is the result of a copy.
type Report struct {
	Files   int
	Bytes   int64
	Skipped []string // skipped files, with the reason
}

func (r *Report) skip(name, why string) { r.Skipped = append(r.Skipped, name+": "+why) }

// Get copies a file or folder from the machine to a path on this computer. If that path
// is a folder, the copy is put in the folder under the last name in remote. Get does not
// ask the machine for a name: the machine could answer .bashrc.
func Get(c *sftp.Client, remote, local string) (Report, error) {
	var r Report
	info, err := c.Stat(remote)
	if err != nil {
		return r, fmt.Errorf("%s in the machine: %w", remote, err)
	}
	if here, err := os.Stat(local); err == nil && here.IsDir() {
		name := path.Base(path.Clean(remote))
		if !safe(name) {
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
		err = fmt.Errorf("%s in the machine is neither a file nor a folder", remote)
	}
	return r, err
}

// safe reports whether a name that a machine sent is a valid file name here.
func safe(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00"+string(filepath.Separator)) && filepath.IsLocal(name)
}

type getter struct {
	c    *sftp.Client
	root *os.Root // contains the destination
	top  string   // the destination's name in root
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
			g.r.skip(fmt.Sprintf("%q", e.Name()), "not a valid file name")
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
	// Do not write through an existing link.
	if info, err := g.root.Lstat(local); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s exists and is not a file", local)
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

// link creates a link, if its target is inside the copied folder.
func (g *getter) link(remote, local string) error {
	to, err := g.c.ReadLink(remote)
	if err != nil {
		return fmt.Errorf("%s in the machine: %w", remote, err)
	}
	if !g.isInside(local, to) {
		g.r.skip(remote, "a link that leads out of the copied folder")
		return nil
	}
	if info, err := g.root.Lstat(local); err == nil {
		if info.Mode()&fs.ModeSymlink == 0 {
			return fmt.Errorf("%s exists and is not a link", local)
		}
		if err := g.root.Remove(local); err != nil {
			return err
		}
	}
	return g.root.Symlink(to, local)
}

// isInside reports whether a link at local points inside the copied folder.
func (g *getter) isInside(local, to string) bool {
	// After another link, ".." may lead elsewhere, so it is only allowed at the
	// beginning.
	if path.IsAbs(to) || filepath.IsAbs(to) || strings.ContainsRune(to, 0) || path.Clean(to) != strings.TrimSuffix(to, "/") {
		return false
	}
	inside, err := filepath.Rel(g.top, filepath.Join(filepath.Dir(local), filepath.FromSlash(to)))
	return err == nil && (inside == "." || filepath.IsLocal(inside))
}

// Put copies a file or folder from this computer to a path in the machine. If that path
// is a folder, the copy is put in the folder under the original name.
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
	// The path itself may be a link: copy its target.
	if local, err = filepath.EvalSymlinks(local); err != nil {
		return r, err
	}
	modes := map[string]fs.FileMode{} // set at the end, since a folder may be read-only
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
			return remoteError(to, c.Mkdir(to))
		case info.Mode().IsRegular():
			return put(c, file, to, info, &r)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(file)
			if err != nil {
				return err
			}
			if old, err := c.Lstat(to); err == nil && old.Mode()&fs.ModeSymlink != 0 {
				if err := c.Remove(to); err != nil {
					return remoteError(to, err)
				}
			}
			return remoteError(to, c.Symlink(filepath.ToSlash(target), to))
		}
		r.skip(file, "a special file")
		return nil
	})
	for to, mode := range modes {
		if err == nil {
			err = remoteError(to, c.Chmod(to, mode&modeBits))
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
		return remoteError(remote, err)
	}
	n, err := io.Copy(out, in)
	r.Bytes += n
	if err = errors.Join(err, out.Chmod(info.Mode()&modeBits), out.Close()); err != nil {
		return remoteError(remote, err)
	}
	r.Files++
	return nil
}

// remoteError marks an error as one about the machine's file.
func remoteError(remote string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s in the machine: %w", remote, err)
}
