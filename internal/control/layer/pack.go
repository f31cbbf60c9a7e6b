package layer

import (
	"archive/tar"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/control/image/unpack"
)

// maxPacked is the maximum size of an exported layer's files in bytes. A sparse
// file costs a machine nothing, but the archive contains its zeros.
const maxPacked = 64 << 30

// Names with which an archive deletes files of lower layers.
const (
	whiteoutPrefix = ".wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// Pack writes the tree of a layer as the archive of an OCI layer. Nothing may
// change the tree meanwhile.
func Pack(ctx context.Context, w io.Writer, dir string) error {
	p := &packer{tar: tar.NewWriter(w), left: maxPacked, links: map[inode]string{}}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := p.add(path, name); err != nil {
			return fmt.Errorf("pack %q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.tar.Close()
}

type inode struct{ dev, ino uint64 }

type packer struct {
	tar   *tar.Writer
	left  int64
	links map[inode]string // first path of each file with several links
}

func (p *packer) add(path, name string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("no owner")
	}
	h := &tar.Header{
		Format: tar.FormatPAX, Name: name, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: info.ModTime(), PAXRecords: map[string]string{},
	}
	if isWhiteout(st) && strings.HasPrefix(filepath.Base(name), whiteoutPrefix) {
		// An OCI archive cannot express a whiteout whose name itself has the
		// whiteout prefix, so write a regular file with a PAX record.
		h.Typeflag, h.PAXRecords[unpack.SavedWhiteout] = tar.TypeReg, "1"
		return p.tar.WriteHeader(h)
	}
	if isWhiteout(st) {
		return p.whiteout(filepath.Dir(name), whiteoutPrefix+filepath.Base(name))
	}
	if strings.HasPrefix(filepath.Base(name), whiteoutPrefix) {
		h.PAXRecords[unpack.SavedLiteral] = "1"
	}
	opaque, err := recordXattrs(path, h)
	if err != nil {
		return err
	}
	if !info.IsDir() && st.Nlink > 1 {
		key := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // narrower on other processors
		if first, seen := p.links[key]; seen {
			h.Typeflag, h.Linkname, h.PAXRecords = tar.TypeLink, first, literalOnly(h.PAXRecords)
			return p.tar.WriteHeader(h)
		}
		p.links[key] = name
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		if err := p.tar.WriteHeader(h); err != nil || !opaque {
			return err
		}
		return p.whiteout(name, whiteoutOpaque)
	case 0:
		return p.file(path, h, info.Size())
	case fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = os.Readlink(path); err != nil {
			return err
		}
	case fs.ModeNamedPipe:
		h.Typeflag = tar.TypeFifo
	case fs.ModeSocket:
		h.Typeflag, h.PAXRecords[unpack.SavedSocket] = tar.TypeReg, "1"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		h.Typeflag = tar.TypeBlock
		if info.Mode()&fs.ModeCharDevice != 0 {
			h.Typeflag = tar.TypeChar
		}
		h.Devmajor, h.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	default:
		return fmt.Errorf("it is of unknown type %s", info.Mode().Type())
	}
	return p.tar.WriteHeader(h)
}

// literalOnly returns only the record about the name, because a link may have
// no other records.
func literalOnly(records map[string]string) map[string]string {
	if v, ok := records[unpack.SavedLiteral]; ok {
		return map[string]string{unpack.SavedLiteral: v}
	}
	return nil
}

// recordXattrs records the attributes of a file in its header. Except for the
// opaque mark, it skips the overlay's private attributes, which are meaningful
// only on this host.
func recordXattrs(path string, h *tar.Header) (opaque bool, err error) {
	attrs, err := xattrs(path)
	if err != nil {
		return false, err
	}
	for name, value := range attrs {
		switch {
		case name == opaqueAttr:
			opaque = string(value) == "y"
		case strings.HasPrefix(name, overlayAttrs):
		case strings.Contains(name, "="):
			h.PAXRecords[unpack.SavedAttribute+hex.EncodeToString([]byte(name))] = string(value)
		default:
			h.PAXRecords["SCHILY.xattr."+name] = string(value)
		}
	}
	return opaque, nil
}

func (p *packer) whiteout(dir, base string) error {
	return p.tar.WriteHeader(&tar.Header{Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: filepath.Join(dir, base)})
}

func (p *packer) file(path string, h *tar.Header, size int64) error {
	if p.left -= size; p.left < 0 {
		return fmt.Errorf("the layer's files are larger than %d GiB in total", maxPacked>>30)
	}
	h.Typeflag, h.Size = tar.TypeReg, size
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(p.tar, f)
	return err
}

// isWhiteout reports whether an overlay treats the file as a whiteout.
func isWhiteout(st *syscall.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}
