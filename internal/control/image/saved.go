package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// What the archive of a saved layer says beside what every archive can. Other
// programs that read it pass over these records.
const (
	SavedLiteral   = "ALOFT.literal"  // the name begins as a whiteout's does, and is none
	SavedWhiteout  = "ALOFT.whiteout" // what has the name, which itself begins so, is deleted
	SavedSocket    = "ALOFT.socket"   // the entry, of a file without content, is a socket
	SavedAttribute = "ALOFT.xattr."   // and the attribute's name in hex, where it does not fit into a key
	xattrRecord    = "SCHILY.xattr."
)

// UnpackSaved writes the archive of a saved layer into dir, as untar does that
// of an image's, and with all that a machine may have made: sockets, devices
// (which no machine's mount obeys), every file's attributes, and holes, so that
// zeros cost nothing. It is as hostile as any.
func UnpackSaved(ctx context.Context, r io.Reader, dir string) error {
	return untarAs(ctx, r, dir, true)
}

// special makes what only saved layers hold. done is false for all else.
func (u *unpacker) special(name string, h *tar.Header) (done bool, err error) {
	var mode uint32
	var dev uint64
	switch {
	case h.PAXRecords[SavedWhiteout] != "":
		return true, u.putWhiteout(path.Dir(name), path.Base(name))
	case h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0:
		return true, errors.New("it is a whiteout in the form of a file system's, which no archive has")
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
	if err := u.at(path.Dir(name), func(fd int) error { return unix.Mknodat(fd, path.Base(name), mode|0o600, int(dev)) }); err != nil {
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
	return u.at(path.Dir(name), func(fd int) error {
		return unix.UtimesNanoAt(fd, path.Base(name), []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// savedAttributes sets the extended attributes of whatever the file is. The
// parent is ours and no link, and the last name is not followed.
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
		err := u.at(path.Dir(name), func(fd int) error {
			return unix.Lsetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", fd, path.Base(name)), attr, []byte(value), 0)
		})
		if err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("attribute %s: %w", attr, err)
		}
	}
	return nil
}

// savedXattr lets through what a machine can have set, and nothing that an
// overlay obeys.
func savedXattr(name string) bool {
	switch name {
	case "security.capability", "system.posix_acl_access", "system.posix_acl_default":
		return true
	}
	return strings.HasPrefix(name, "user.")
}

// A file is written in blocks, and of a block the pages that are not zeros: ten
// gigabytes of zeros are ten megabytes of an archive, and take no disk.
const (
	sparseBlock = 256 << 10
	sparsePage  = 4 << 10
)

var zeros [sparsePage]byte

// copySparse writes the size bytes that r gives, with holes for zeros.
func copySparse(f *os.File, r io.Reader, size int64) error {
	block := make([]byte, min(size, sparseBlock))
	for at := int64(0); at < size; at += int64(len(block)) {
		block = block[:min(size-at, int64(len(block)))]
		if _, err := io.ReadFull(r, block); err != nil {
			return err
		}
		from := -1 // of pages to be written
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
		if from >= 0 { // a last page that is not whole
			if _, err := f.WriteAt(block[from:], at+int64(from)); err != nil {
				return err
			}
		}
	}
	return f.Truncate(size)
}
