package unpack

import (
	"archive/tar"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// PAX records that the archive of a saved layer uses in addition to the
// standard ones. Other programs ignore them.
const (
	SavedLiteral   = "ALOFT.literal"  // the name starts like a whiteout but is a normal file
	SavedWhiteout  = "ALOFT.whiteout" // deletes the file of this name, which itself starts like a whiteout
	SavedSocket    = "ALOFT.socket"   // the entry, an empty file, is a socket
	SavedAttribute = "ALOFT.xattr."   // prefix of attribute names in hex that do not fit into a key
	xattrRecord    = "SCHILY.xattr."
)

// special creates entries that occur only in saved layers. done reports whether
// the entry was one of them.
func (u *unpacker) special(name string, h *tar.Header) (done bool, err error) {
	var mode uint32
	var dev uint64
	switch {
	case h.PAXRecords[SavedWhiteout] != "":
		return true, u.putWhiteout(path.Dir(name), path.Base(name))
	case h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0:
		return true, errors.New("it is a character-device whiteout, which an archive must not contain")
	case h.Typeflag == tar.TypeChar:
		mode, dev = unix.S_IFCHR, unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))
	case h.Typeflag == tar.TypeBlock:
		mode, dev = unix.S_IFBLK, unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))
	case h.Typeflag == tar.TypeReg && h.PAXRecords[SavedSocket] != "":
		mode = unix.S_IFSOCK
	case h.Typeflag == tar.TypeSymlink:
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return true, err
		}
		if err := u.root.Lchown(name, h.Uid, h.Gid); err != nil {
			return true, err
		}
		if err := u.savedAttributes(name, h); err != nil {
			return true, err
		}
		return true, u.time(name, h)
	default:
		return false, nil
	}
	if err := u.inDir(path.Dir(name), func(fd int) error { return unix.Mknodat(fd, path.Base(name), mode|0o600, int(dev)) }); err != nil {
		return true, err
	}
	return true, u.attributes(name, h)
}

// time sets the time of a file that may be a link.
func (u *unpacker) time(name string, h *tar.Header) error {
	ts, err := unix.TimeToTimespec(h.ModTime)
	if err != nil {
		return err
	}
	return u.inDir(path.Dir(name), func(fd int) error {
		return unix.UtimesNanoAt(fd, path.Base(name), []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// savedAttributes sets the extended attributes of any kind of file. It does not
// follow the file if it is a link. The parent is not a link, because the
// unpacker created it.
func (u *unpacker) savedAttributes(name string, h *tar.Header) error {
	for key, value := range h.PAXRecords {
		attr, ok := strings.CutPrefix(key, xattrRecord)
		if coded, is := strings.CutPrefix(key, SavedAttribute); is {
			raw, err := hex.DecodeString(coded)
			if err != nil {
				return fmt.Errorf("record %s: %w", key, err)
			}
			attr, ok = string(raw), true
		}
		if !ok || !savedXattr(attr) {
			continue
		}
		err := u.inDir(path.Dir(name), func(fd int) error {
			return u.setAttribute(fd, path.Base(name), attr, []byte(value))
		})
		if err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("attribute %s: %w", attr, err)
		}
	}
	return nil
}

// savedXattr reports whether an attribute may be restored: those that a machine
// can set, but none that an overlay interprets.
func savedXattr(name string) bool {
	switch name {
	case "security.capability", "system.posix_acl_access", "system.posix_acl_default":
		return true
	}
	return strings.HasPrefix(name, "user.")
}

// Files are written in blocks, but zero pages of a block are skipped. Ten
// gigabytes of zeros take ten megabytes in a compressed archive, and no disk
// space once unpacked.
const (
	sparseBlock = 256 << 10
	sparsePage  = 4 << 10
)

var zeros [sparsePage]byte

// copySparse writes the size bytes of r, with holes for zeros.
func copySparse(f *os.File, r io.Reader, size int64) error {
	block := make([]byte, min(size, sparseBlock))
	for at := int64(0); at < size; at += int64(len(block)) {
		block = block[:min(size-at, int64(len(block)))]
		if _, err := io.ReadFull(r, block); err != nil {
			return err
		}
		from := -1 // start of the pages to be written
		for i := 0; i <= len(block); i += sparsePage {
			end := min(i+sparsePage, len(block))
			hole := i >= len(block) || bytes.Equal(block[i:end], zeros[:end-i])
			switch {
			case !hole && from < 0:
				from = i
			case hole && from >= 0:
				if _, err := f.WriteAt(block[from:min(i, len(block))], at+int64(from)); err != nil {
					return err
				}
				from = -1
			}
		}
		if from >= 0 { // a partial last page
			if _, err := f.WriteAt(block[from:], at+int64(from)); err != nil {
				return err
			}
		}
	}
	return f.Truncate(size)
}
