package unpack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MaxBytes is the maximum size of an unpacked layer, so that a small file cannot
// fill the disk.
const MaxBytes = 64 << 30

const (
	maxEntries = 4 << 20
	maxPath    = 4 << 10  // bytes of a name, as in the kernel; a single name of 1 MiB would create half a million folders
	maxTail    = 64 << 20 // bytes of padding after an archive's end
)

// Names with which a layer's archive deletes files of lower layers.
const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// An unpacker writes an archive into a folder, in the form that overlay mounts
// read: whiteouts become character devices, and the marks of directories are
// passed to mark. The archive is treated as hostile: nothing is written outside
// of the folder, whatever its names and links say, an image's layer gets no
// devices, and no attributes are set that an overlay interprets.
type unpacker struct {
	root  *os.Root
	saved bool                 // the archive is that of a saved layer; see Saved
	entry func(n int) error    // called before n entries are created
	mark  func(m markOf) error // marks a directory; called after all entries
	// setAttribute sets an extended attribute of a file in an open directory. It
	// does not follow links.
	setAttribute func(dir int, name, attr string, value []byte) error

	left  int64 // bytes that may still be written
	dirs  []dirTime
	marks marks
}

// unpack writes the archive into the folder, and reads r to its end.
func (u *unpacker) unpack(ctx context.Context, r io.Reader) error {
	u.left = MaxBytes
	tr := tar.NewReader(r)
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if n == maxEntries {
			return fmt.Errorf("archive: more than %d entries", maxEntries)
		}
		if err := u.entry(1); err != nil {
			return err
		}
		if err := u.write(h, tr); err != nil {
			return fmt.Errorf("archive: %.256q: %w", h.Name, err)
		}
	}
	// The layer's digest includes the bytes after the end of the archive.
	if n, err := io.Copy(io.Discard, io.LimitReader(r, maxTail+1)); err != nil {
		return err
	} else if n > maxTail {
		return fmt.Errorf("more than %d MiB follow the end of the archive", maxTail>>20)
	}
	return u.finish()
}

// dirTime is the time of a directory. Times of directories are set last,
// because writing into a directory changes its time.
type dirTime struct {
	name string
	time time.Time
}

var errEscape = errors.New("it leads out of the layer")

// cleanName makes an archive's name relative to the layer.
func cleanName(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errEscape
		}
	}
	if strings.Contains(name, "\x00") {
		return "", errors.New("its name contains a NUL byte")
	}
	if len(name) > maxPath {
		return "", fmt.Errorf("its name has more than %d bytes", maxPath)
	}
	return path.Clean(strings.TrimLeft(name, "/")), nil
}

func (u *unpacker) write(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	if isSparse(h) {
		// A few bytes of a sparse entry could expand to the maximum size of a
		// layer.
		return errors.New("it is a sparse file, which no builder of images writes")
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return errors.New("the root of a layer is a directory")
		}
		if u.saved {
			u.dirs = append(u.dirs, dirTime{name, h.ModTime})
		}
		return u.attributes(name, h)
	}
	if err := u.parents(name); err != nil {
		return err
	}
	if u.saved && (h.PAXRecords[SavedLiteral] != "" || h.PAXRecords[SavedWhiteout] != "") {
		// The name only looks like a whiteout.
	} else if base := path.Base(name); strings.HasPrefix(base, whiteoutPrefix) {
		return u.whiteout(path.Dir(name), base)
	}
	if err := u.clear(name, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	if u.saved {
		if done, err := u.special(name, h); done || err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		u.dirs = append(u.dirs, dirTime{name, h.ModTime})
	case tar.TypeReg:
		if err := u.file(name, h.Size, r); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return u.root.Lchown(name, h.Uid, h.Gid)
	case tar.TypeLink:
		return u.hardLink(name, h.Linkname)
	case tar.TypeFifo:
		if err := u.inDir(path.Dir(name), func(fd int) error { return unix.Mkfifoat(fd, path.Base(name), 0o600) }); err != nil {
			return err
		}
	case tar.TypeChar, tar.TypeBlock:
		return errors.New("it is a device, which an image must not contain")
	default:
		return fmt.Errorf("it is of unknown type %q", h.Typeflag)
	}
	return u.attributes(name, h)
}

func isSparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// parents creates the directories above name that the archive left out. It
// refuses a parent that is a link, even if the link stays inside the layer,
// because an overlay would resolve the link against all layers. os.Root refuses
// links that lead out.
func (u *unpacker) parents(name string) error {
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		dir := name[:i]
		info, err := u.root.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := errors.Join(u.root.Mkdir(dir, 0o755), u.root.Lchown(dir, 0, 0)); err != nil {
				return err
			}
		case err != nil:
			return err
		case info.Mode().Type() == fs.ModeSymlink:
			return fmt.Errorf("its parent folder %s is a symbolic link: %w", dir, errEscape)
		case !info.IsDir():
			return fmt.Errorf("its parent folder %s is not a directory", dir)
		}
	}
	return nil
}

// clear removes the file of an earlier entry with the same name.
func (u *unpacker) clear(name string, forDir bool) error {
	info, err := u.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || forDir && info.IsDir() {
		return err
	}
	u.marks.remove(name)
	return u.root.RemoveAll(name)
}

func (u *unpacker) file(name string, size int64, r io.Reader) error {
	if u.left -= size; u.left < 0 {
		return fmt.Errorf("the layer is larger than %d GiB", MaxBytes>>30)
	}
	f, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = copySparse(f, r, size)
	return errors.Join(err, f.Close())
}

func (u *unpacker) hardLink(name, target string) error {
	target, err := cleanName(target)
	if err != nil {
		return err
	}
	info, err := u.root.Lstat(target)
	if err != nil {
		return fmt.Errorf("hard link: %w", err)
	}
	if info.IsDir() {
		return errors.New("it is a hard link to a directory")
	}
	return u.root.Link(target, name)
}

// whiteout records that the layer deletes a name of lower layers.
func (u *unpacker) whiteout(dir, base string) error {
	if base == whiteoutOpaque {
		u.marks.add(dir, opaque)
		return nil
	}
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if strings.HasPrefix(base, whiteoutMeta) || hidden == "" || hidden == "." || hidden == ".." {
		return nil // metadata of another union file system
	}
	if err := u.clear(path.Join(dir, hidden), false); err != nil {
		return err
	}
	return u.putWhiteout(dir, hidden)
}

func (u *unpacker) putWhiteout(dir, name string) error {
	err := u.inDir(dir, func(fd int) error { return unix.Mknodat(fd, name, unix.S_IFCHR, 0) })
	if err != nil {
		return err
	}
	u.marks.add(dir, origin)
	return u.root.Lchown(path.Join(dir, name), 0, 0)
}

// inDir calls do with a descriptor of a directory of the layer.
func (u *unpacker) inDir(dir string, do func(fd int) error) error {
	f, err := u.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(do(int(f.Fd())), f.Close())
}

// attributes sets owner, mode, extended attributes and time, in an order in
// which no step undoes another.
func (u *unpacker) attributes(name string, h *tar.Header) error {
	if err := u.root.Lchown(name, h.Uid, h.Gid); err != nil {
		return err
	}
	// The name is no link. [os.Root.Chmod] would need /proc before Linux 6.6.
	mode := uint32(h.Mode & 0o7777)
	if err := u.inDir(path.Dir(name), func(fd int) error { return unix.Fchmodat(fd, path.Base(name), mode, 0) }); err != nil {
		return err
	}
	if u.saved {
		if err := u.savedAttributes(name, h); err != nil {
			return err
		}
	} else if h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeDir {
		for key, value := range h.PAXRecords {
			attr, ok := strings.CutPrefix(key, "SCHILY.xattr.")
			if !ok || !allowedXattr(attr) {
				continue
			}
			err := u.inDir(name, func(fd int) error { return unix.Fsetxattr(fd, attr, []byte(value), 0) })
			if err != nil && !errors.Is(err, unix.ENOTSUP) {
				return fmt.Errorf("attribute %s: %w", attr, err)
			}
		}
	}
	if h.Typeflag == tar.TypeDir {
		return nil // directory times are set last
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

// allowedXattr reports whether an attribute may be set: file capabilities and
// user attributes. An overlay interprets its own attributes, which could make
// it read outside of the layer.
func allowedXattr(name string) bool {
	return name == "security.capability" || strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
}

func (u *unpacker) finish() error {
	for _, d := range u.dirs {
		if err := u.root.Chtimes(d.name, d.time, d.time); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("archive: %q: %w", d.name, err)
		}
	}
	return u.marks.each(u.mark)
}
