package unpack

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/need"
)

// item is one entry of an archive made for a test.
type item struct {
	name, link, body string
	kind             byte
	mode             int64
	uid              int
	xattr            map[string]string
}

func archive(t testing.TB, items ...item) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, i := range items {
		h := &tar.Header{Name: i.name, Linkname: i.link, Typeflag: i.kind, Mode: i.mode, Uid: i.uid, Gid: i.uid, Size: int64(len(i.body)), ModTime: time.Unix(1000, 0)}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		for k, v := range i.xattr {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords["SCHILY.xattr."+k] = v
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(i.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// untar unpacks an image's layer in this process.
func untar(ctx context.Context, r io.Reader, dir string) error {
	return here().Layer(ctx, r, dir, free)
}

// here returns an Unpacker that does not confine.
func here() *Unpacker {
	return &Unpacker{unconfined: func() error { return errors.New("of a test") }}
}

// free is a budget that allows any number of entries.
func free(int) error { return nil }

// has reports whether a file has an extended attribute.
func has(path, attr string) bool {
	_, err := unix.Lgetxattr(path, attr, make([]byte, 64))
	return err == nil
}

func TestUntar(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	err := untar(t.Context(), bytes.NewReader(archive(t,
		item{name: "./", kind: tar.TypeDir},
		item{name: "etc/", kind: tar.TypeDir, mode: 0o750, uid: 7},
		item{name: "etc/conf", body: "old"},
		item{name: "etc/conf", body: "new", mode: 0o640, uid: 8},
		item{name: "/absolute", body: "inside"},
		item{name: "no/parent/listed", body: "x"},
		item{name: "bin/su", body: "x", mode: 0o4755},
		item{name: "bin/ping", body: "x", xattr: map[string]string{"user.note": "y", "trusted.overlay.redirect": "/etc", "user.overlay.redirect": "/etc", "trusted.overlay.opaque": "y"}},
		item{name: "bin/su2", kind: tar.TypeLink, link: "bin/su"},
		item{name: "to-host", kind: tar.TypeSymlink, link: "/etc/shadow"},
		item{name: "up", kind: tar.TypeSymlink, link: "../../../etc/shadow"},
		item{name: "pipe", kind: tar.TypeFifo},
		item{name: "etc/.wh.gone"},
		item{name: "home/.wh..wh..opq"},
		item{name: ".wh..wh.aufs", body: "x"},
	)), dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"etc/conf": "new", "absolute": "inside", "no/parent/listed": "x", "bin/su2": "x"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]fs.FileMode{"bin/su": fs.ModeSetuid | 0o755, "bin/su2": fs.ModeSetuid | 0o755, "etc": fs.ModeDir | 0o750, "etc/conf": 0o640, "pipe": fs.ModeNamedPipe | 0o755, "etc/gone": fs.ModeDevice | fs.ModeCharDevice} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
	info, err := os.Lstat(filepath.Join(dir, "etc"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 7 || !info.ModTime().Equal(time.Unix(1000, 0)) {
		t.Errorf("etc is of %d, %v", st.Uid, info.ModTime())
	}
	if !has(filepath.Join(dir, "home"), OpaqueAttr) || has(filepath.Join(dir, "etc"), OpaqueAttr) {
		t.Error("home and only home hides what is below")
	}
	for attr, want := range map[string]bool{"user.note": true, "user.overlay.redirect": false, "trusted.overlay.redirect": false, "trusted.overlay.opaque": false} {
		_, err := unix.Lgetxattr(filepath.Join(dir, "bin/ping"), attr, make([]byte, 64))
		if (err == nil) != want {
			t.Errorf("attribute %s: %v", attr, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, ".wh..wh.aufs")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("bookkeeping of aufs has been unpacked")
	}
}

// hostile lists archives that must be refused, with the expected error.
var hostile = map[string]struct {
	items []item
	want  string
}{
	"dots":                       {[]item{{name: "../x", body: "x"}}, "leads out"},
	"dots inside":                {[]item{{name: "a/../../x", body: "x"}}, "leads out"},
	"absolute dots":              {[]item{{name: "/../x", body: "x"}}, "leads out"},
	"through an absolute link":   {[]item{{name: "a", kind: tar.TypeSymlink, link: "/tmp"}, {name: "a/x", body: "x"}}, "is a symbolic link"},
	"through a relative link":    {[]item{{name: "a", kind: tar.TypeSymlink, link: ".."}, {name: "a/x", body: "x"}}, "is a symbolic link"},
	"through an inner link":      {[]item{{name: "b/", kind: tar.TypeDir}, {name: "a", kind: tar.TypeSymlink, link: "b"}, {name: "a/x", body: "x"}}, "is a symbolic link"},
	"directory over a link":      {[]item{{name: "a", kind: tar.TypeSymlink, link: "/tmp"}, {name: "a/b/c", body: "x"}}, "is a symbolic link"},
	"below a file":               {[]item{{name: "a", body: "x"}, {name: "a/b", body: "x"}}, "is not a directory"},
	"hard link out":              {[]item{{name: "a", kind: tar.TypeLink, link: "../../etc/shadow"}}, "leads out"},
	"hard link to the host":      {[]item{{name: "a", kind: tar.TypeLink, link: "/etc/shadow"}}, "no such file"},
	"hard link through a link":   {[]item{{name: "e", kind: tar.TypeSymlink, link: "/etc"}, {name: "a", kind: tar.TypeLink, link: "e/shadow"}}, "escapes"},
	"hard link to a directory":   {[]item{{name: "d/", kind: tar.TypeDir}, {name: "a", kind: tar.TypeLink, link: "d"}}, "to a directory"},
	"block device":               {[]item{{name: "disk", kind: tar.TypeBlock}}, "device"},
	"whiteout as a device":       {[]item{{name: "x", kind: tar.TypeChar}}, "device"},
	"whiteout of the parent":     {[]item{{name: "a/.wh..."}, {name: ".wh..", body: "x"}, {name: "../.wh.x"}}, "leads out"},
	"whiteout out":               {[]item{{name: "a/../.wh.x"}}, "leads out"},
	"character device":           {[]item{{name: "kmsg", kind: tar.TypeChar}}, "device"},
	"hard link to a whiteout":    {[]item{{name: ".wh.w"}, {name: "a", kind: tar.TypeLink, link: "w"}, {name: "../a"}}, "leads out"},
	"unknown type":               {[]item{{name: "x", kind: 'Z'}}, "unknown type"},
	"a hundred thousand folders": {[]item{{name: strings.Repeat("d/", 100_000) + "x"}}, "its name has more than"},
	"file as the root":           {[]item{{name: ".", body: "x"}}, "root of a layer"},
	"whiteout through a link":    {[]item{{name: "a", kind: tar.TypeSymlink, link: "/tmp"}, {name: "a/.wh.x"}}, "is a symbolic link"},
}

func TestUntarHostile(t *testing.T) {
	need.Root(t)
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			dir := filepath.Join(outside, "layer")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			err := untar(t.Context(), bytes.NewReader(archive(t, c.items...)), dir)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
			if entries, _ := os.ReadDir(outside); len(entries) != 1 {
				t.Errorf("written outside: %v", entries)
			}
		})
	}
}

// zeroReader is an endless reader of zeros.
type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// bomb returns an archive with one file of zeros.
func bomb(size int64) io.Reader {
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	_ = w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: size, Format: tar.FormatGNU}) // writes to memory
	return io.MultiReader(&head, io.LimitReader(zeroReader{}, size), io.LimitReader(zeroReader{}, 1024))
}

// TestUntarZeros checks that ten gigabytes of zeros unpack using almost no disk
// space, and that a layer above the maximum size is refused.
func TestUntarZeros(t *testing.T) {
	need.Root(t)
	const size = 10 << 30
	dir := t.TempDir()
	if err := untar(t.Context(), bomb(size), dir); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, "zeros"), &st); err != nil || st.Size != size || st.Blocks*512 > 1<<20 {
		t.Errorf("it has %d bytes and takes %d, %v", st.Size, st.Blocks*512, err)
	}
	if err := untar(t.Context(), bomb(MaxBytes+1), t.TempDir()); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := untar(ctx, bomb(size), t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestUntarSparse checks that a small archive with a huge sparse file is
// refused.
func TestUntarSparse(t *testing.T) {
	need.Root(t)
	program := need.Command(t, "tar")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "x"), 1<<40); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"gnu", "posix"} {
		data, err := exec.Command(program, "-C", dir, "--sparse", "--format="+format, "-c", "x").Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := untar(t.Context(), bytes.NewReader(data), t.TempDir()); err == nil || !strings.Contains(err.Error(), "sparse") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// TestSparse checks that every file is restored exactly, wherever its zeros
// are.
func TestSparse(t *testing.T) {
	need.Root(t)
	zero, noise := strings.Repeat("\x00", sparseBlock), strings.Repeat("n", sparseBlock)
	for name, text := range map[string]string{
		"empty": "", "short": "\x00\x00", "zeros": zero, "end": noise + zero, "begin": zero + noise, "middle": "x" + zero + zero + "x", "odd": noise + zero + zero[:7], "both": zero + noise + zero,
	} {
		dir := t.TempDir()
		if err := untar(t.Context(), bytes.NewReader(archive(t, item{name: name, body: text})), dir); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s has %d bytes, want %d, %v", name, len(got), len(text), err)
		}
	}
}

func TestUntarTorn(t *testing.T) {
	whole := archive(t, item{name: "a", body: strings.Repeat("x", 4000)})
	for _, n := range []int{100, 600, 2000} {
		if err := untar(t.Context(), bytes.NewReader(whole[:n]), t.TempDir()); err == nil {
			t.Errorf("an archive cut at %d is no error", n)
		}
	}
}

// FuzzUntar checks that no archive writes outside of the layer's folder.
func FuzzUntar(f *testing.F) {
	need.Root(f)
	for _, c := range hostile {
		f.Add(archive(f, c.items...))
	}
	f.Add(archive(f, item{name: "a/b", body: "x"}, item{name: "a/.wh.b"}, item{name: "a/.wh..wh..opq"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		outside := t.TempDir()
		dir := filepath.Join(outside, "layer")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = untar(t.Context(), bytes.NewReader(data), dir)
		if entries, _ := os.ReadDir(outside); len(entries) != 1 {
			t.Errorf("written outside: %v", entries)
		}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&fs.ModeDevice != 0 {
				info, err := d.Info()
				if st, ok := info.Sys().(*syscall.Stat_t); err == nil && ok && st.Rdev != 0 {
					t.Errorf("%s is a device", path)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
