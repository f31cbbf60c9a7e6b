// Package unpack writes the layers of images and the saved layers of machines
// into folders. A layer's bytes are hostile. So if the server is root and the
// host allows it, processes of this program in jails (package confine) read
// these bytes. One process decompresses: it sees no file and has no capability.
// Another process unpacks the archive: it sees only the folder of the layer,
// and its capabilities apply to nothing else. The server itself digests the
// bytes that pass between the two, so that a compromised process cannot pass
// off its output as the content of another layer.
//
// Libraries that unpack layers (umoci, containerd) do so in the calling
// process, where a hostile archive that exploits a defect gains the rights of
// the server.
package unpack

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"aloft/internal/control/confine"
)

// An Unpacker unpacks layers. Its methods are safe for concurrent use.
type Unpacker struct {
	programs   []string // this program, and the files that it needs to run
	args       []string // other arguments of this program, for tests
	host       *confine.Host
	unconfined func() error // why this host cannot confine unpacking; nil if it can
}

// New returns an Unpacker for a store on the folder dir.
func New(dir string) *Unpacker {
	u := &Unpacker{}
	var err error
	if u.programs, err = programFiles(); err == nil {
		u.host, err = confine.Open(dir)
	}
	u.unconfined = sync.OnceValue(func() error {
		if err != nil {
			return err
		}
		return u.try()
	})
	return u
}

// Unconfined returns nil if layers are unpacked in jails, or why this process
// unpacks them itself.
func (u *Unpacker) Unconfined() error { return u.unconfined() }

// try decompresses an empty archive in a jail.
func (u *Unpacker) try() error {
	var empty bytes.Buffer
	if err := gzip.NewWriter(&empty).Close(); err != nil {
		return err
	}
	r, err := u.expandInJail(context.Background(), &empty)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	return errors.Join(err, r.Close())
}

// Expand returns the decompressed content of r; r may also be uncompressed. The
// caller must close the returned reader. Until that reader has returned io.EOF
// or is closed, the caller must not use r.
func (u *Unpacker) Expand(ctx context.Context, r io.Reader) (io.ReadCloser, error) {
	format, r, err := formatOf(r)
	switch {
	case err != nil:
		return nil, err
	case format == plain:
		return io.NopCloser(r), nil
	case u.Unconfined() != nil:
		return expand(r)
	}
	return u.expandInJail(ctx, r)
}

// Layer writes a layer's archive into the folder dir, in the form that overlay
// mounts read, and reads r to its end. Layer calls entries before it creates n
// entries, and with 0 once a second. An error of entries ends the unpacking.
func (u *Unpacker) Layer(ctx context.Context, r io.Reader, dir string, entries func(n int) error) error {
	return u.unpack(ctx, r, dir, false, entries)
}

// Saved writes the archive of a saved layer into dir. It works like Layer, and
// also restores what a machine may have created: sockets, devices (disabled by
// the machine's mount options), and extended attributes of every file.
func (u *Unpacker) Saved(ctx context.Context, r io.Reader, dir string) error {
	return u.unpack(ctx, r, dir, true, func(int) error { return nil })
}

func (u *Unpacker) unpack(ctx context.Context, r io.Reader, dir string, saved bool, entries func(n int) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing was written through it
	if u.Unconfined() == nil {
		return u.unpackInJail(ctx, r, root, saved, entries)
	}
	here := unpacker{root: root, saved: saved, entry: entries, mark: func(m markOf) error { return m.set(root) }}
	here.setAttribute = func(dir int, name, attr string, value []byte) error {
		return unix.Lsetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", dir, name), attr, value, 0)
	}
	return here.unpack(ctx, r)
}

// The formats of compressed layers.
type format int

const (
	plain format = iota
	gzipped
	zstandard
)

// formatOf detects the compression from the content, since media types can be
// wrong. The returned reader has all of the content.
func formatOf(r io.Reader) (format, io.Reader, error) {
	head := make([]byte, 4)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return plain, nil, err
	}
	r = io.MultiReader(bytes.NewReader(head[:n]), r)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzipped, r, nil
	case slices.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstandard, r, nil
	}
	return plain, r, nil
}

// maxWindow is the maximum memory for the window (history) of a zstd stream.
const maxWindow = 128 << 20

func expand(r io.Reader) (io.ReadCloser, error) {
	format, r, err := formatOf(r)
	switch {
	case err != nil:
		return nil, err
	case format == gzipped:
		return gzip.NewReader(r)
	case format == zstandard:
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}

// The marks of a directory are extended attributes that only the host's root may
// set.
const (
	// OpaqueAttr, with the value "y", marks a directory that hides the lower
	// directory of the same path.
	OpaqueAttr = "trusted.overlay.opaque"
	// OriginAttr is an attribute without a value. It marks a directory that
	// also exists in a lower layer and so may contain whiteouts. Without this
	// mark, an overlay would show the whiteouts as files.
	OriginAttr = "trusted.overlay.origin"
)

// mark is a bit set of a directory's marks.
type mark uint8

const (
	opaque mark = 1 << iota
	origin
)

// markOf holds the marks of one directory.
type markOf struct {
	dir  string
	mark mark
}

// set sets the marks. It is safe for any name, even while a hostile process
// changes the folder.
func (m markOf) set(root *os.Root) error {
	f, err := root.OpenFile(m.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if m.mark&opaque != 0 {
		err = unix.Fsetxattr(int(f.Fd()), OpaqueAttr, []byte("y"), 0)
	}
	if m.mark&origin != 0 {
		err = errors.Join(err, unix.Fsetxattr(int(f.Fd()), OriginAttr, nil, 0))
	}
	return err
}

// marks holds the marks of a directory and of the directories below it.
type marks struct {
	own   mark
	below map[string]*marks
}

func (m *marks) add(dir string, what mark) {
	if dir != "." {
		for part := range strings.SplitSeq(dir, "/") {
			if m.below == nil {
				m.below = map[string]*marks{}
			}
			if m.below[part] == nil {
				m.below[part] = &marks{}
			}
			m = m.below[part]
		}
	}
	m.own |= what
}

// remove forgets the marks of a directory and of those below it.
func (m *marks) remove(name string) {
	for m != nil {
		first, rest, more := strings.Cut(name, "/")
		if !more {
			delete(m.below, first)
			return
		}
		m, name = m.below[first], rest
	}
}

// each calls do for every marked directory.
func (m *marks) each(do func(markOf) error) error { return m.eachBelow(".", do) }

func (m *marks) eachBelow(dir string, do func(markOf) error) error {
	if m.own != 0 {
		if err := do(markOf{dir, m.own}); err != nil {
			return fmt.Errorf("mark %q: %w", dir, err)
		}
	}
	for name, below := range m.below {
		if dir != "." {
			name = dir + "/" + name
		}
		if err := below.eachBelow(name, do); err != nil {
			return err
		}
	}
	return nil
}
