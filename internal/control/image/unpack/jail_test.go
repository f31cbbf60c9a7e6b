package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"aloft/internal/need"
)

// TestMain makes the test binary its own hostile unpacker: in a jail, it runs
// the attack that the test has named in stand instead of unpacking.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[0] == standName {
		attack := attacks[os.Args[1]]
		if err := attack(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// standName is argument 0 of the hostile stand-in.
const standName = "aloft-unpack-hostile"

// jailed returns an Unpacker that confines.
func jailed(t testing.TB) *Unpacker {
	t.Helper()
	need.Root(t)
	u := New(t.TempDir())
	if err := u.Unconfined(); err != nil {
		need.Missing(t, "confinement", err)
	}
	return u
}

// saved returns the archive of a saved layer. It uses every feature that saved
// layers have and layers of images lack.
func saved(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []*tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o711},
		{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o2775, PAXRecords: map[string]string{"SCHILY.xattr.user.note": "dir"}},
		{Name: "d/socket", Typeflag: tar.TypeReg, Mode: 0o600, PAXRecords: map[string]string{SavedSocket: "1"}},
		{Name: "d/tty", Typeflag: tar.TypeChar, Mode: 0o620, Devmajor: 5, Devminor: 0},
		{Name: "d/disk", Typeflag: tar.TypeBlock, Mode: 0o660, Devmajor: 7, Devminor: 3},
		{Name: "d/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"},
		{Name: ".wh.literal", Typeflag: tar.TypeReg, Mode: 0o644, PAXRecords: map[string]string{SavedLiteral: "1"}},
		{Name: "d/.wh.gone", Typeflag: tar.TypeReg, Mode: 0o644, PAXRecords: map[string]string{SavedWhiteout: "1"}},
		{Name: "d/acl", Typeflag: tar.TypeReg, Mode: 0o640, PAXRecords: map[string]string{"SCHILY.xattr.system.posix_acl_access": acl}},
		{Name: "d/odd", Typeflag: tar.TypeReg, Mode: 0o640, PAXRecords: map[string]string{SavedAttribute + "757365722e613d62": "x"}},
	} {
		h.ModTime, h.Uid, h.Gid, h.Format = time.Unix(2000, 5), 1000, 1001, tar.FormatPAX
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// acl lets the user 7 read: version 2, then tag, permissions and id of each entry.
const acl = "\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00\x07\x00\x00\x00" +
	"\x04\x00\x04\x00\xff\xff\xff\xff" + "\x10\x00\x04\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff"

// capable is the file capability cap_net_raw+ep.
const capable = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// list describes every file of a tree with all its metadata.
func list(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	inodes := map[uint64]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, dir)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s mode=%o owner=%d:%d links=%d dev=%x size=%d blocks=%d", name, st.Mode, st.Uid, st.Gid, st.Nlink, st.Rdev, st.Size, st.Blocks)
		if st.Mtim.Sec < 1e6 { // other folders have the current time
			fmt.Fprintf(&out, " time=%d.%d", st.Mtim.Sec, st.Mtim.Nsec)
		}
		if first, ok := inodes[st.Ino]; ok {
			fmt.Fprintf(&out, " same=%s", first)
		} else {
			inodes[st.Ino] = name
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " data=%q", data[:min(len(data), 100)])
		case unix.S_IFLNK:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " to=%s", to)
		}
		names := make([]byte, 4096)
		n, err := unix.Llistxattr(path, names)
		if err != nil {
			return err
		}
		for _, attr := range slices.Sorted(strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00")) {
			if attr == "" {
				continue
			}
			value := make([]byte, 4096)
			n, err := unix.Lgetxattr(path, attr, value)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " %s=%x", attr, value[:n])
		}
		out.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestJailMakesTheSame checks that unusual layers unpack to the same tree in
// this process and in a jail.
func TestJailMakesTheSame(t *testing.T) {
	confined := jailed(t)
	deep := strings.Repeat("a-folder-with-a-long-name/", 100)
	zero := strings.Repeat("\x00", sparseBlock)
	for name, c := range map[string]struct {
		archive []byte
		saved   bool
	}{
		"Empty": {archive: archive(t)},
		"Plain": {archive: archive(t,
			item{name: "./", kind: tar.TypeDir, mode: 0o755, uid: 9}, item{name: "etc/", kind: tar.TypeDir, mode: 0o2750, uid: 7},
			item{name: "etc/conf", body: "old"}, item{name: "etc/conf", body: "new", mode: 0o400, uid: 8},
			item{name: "no/parent/listed", body: "x", uid: 5}, item{name: "closed/", kind: tar.TypeDir, mode: 0o001, uid: 4}, item{name: "closed/in", body: "x", uid: 4},
			item{name: "bin/su", body: "x", mode: 0o6755}, item{name: "bin/owned", body: "x", mode: 0o6755, uid: 0x7fffffff}, item{name: "bin/su2", kind: tar.TypeLink, link: "bin/su"},
			item{name: "bin/ping", body: "x", mode: 0o755, uid: 3, xattr: map[string]string{"security.capability": capable, "user.note": "n", "trusted.overlay.redirect": "/etc", "user.overlay.opaque": "y"}},
			item{name: "to-host", kind: tar.TypeSymlink, link: "/etc/shadow", uid: 6}, item{name: "pipe", kind: tar.TypeFifo, mode: 0o622, uid: 5},
			item{name: "tmp/", kind: tar.TypeDir, mode: 0o1777, xattr: map[string]string{"user.note": "n"}},
			item{name: "holes", body: "x" + zero + zero + "x"}, item{name: deep + "file", body: "x"}, item{name: deep + ".wh.file2"})},
		"Whiteouts": {archive: archive(t,
			item{name: "etc/.wh.gone"}, item{name: "home/.wh..wh..opq"}, item{name: "home/x", body: "x"}, item{name: ".wh.top"}, item{name: ".wh..wh.aufs", body: "x"},
			item{name: "replaced/.wh..wh..opq"}, item{name: "replaced", body: "a file"}, item{name: "replaced/", kind: tar.TypeDir},
			item{name: "above/replaced/.wh.x"}, item{name: "above", kind: tar.TypeSymlink, link: "etc"},
			item{name: "made/file", body: "x"}, item{name: "made/.wh.file"}, item{name: "made/file", body: "again"}, item{name: ".wh..wh..opq"})},
		"Saved": {archive: saved(t), saved: true},
	} {
		t.Run(name, func(t *testing.T) {
			var trees [2]string
			for i, u := range []*Unpacker{here(), confined} {
				dir := t.TempDir()
				if err := os.Chmod(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := u.unpack(t.Context(), bytes.NewReader(c.archive), dir, c.saved, free); err != nil {
					t.Fatal(err)
				}
				trees[i] = list(t, dir)
			}
			if trees[0] != trees[1] {
				t.Errorf("here:\n%s\nin a jail:\n%s", trees[0], trees[1])
			}
		})
	}
	for name, c := range hostile {
		err := confined.Layer(t.Context(), bytes.NewReader(archive(t, c.items...)), t.TempDir(), free)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", name, err, c.want)
		}
	}
}

// TestExpandInJail checks that each format is decompressed in a jail, and that
// damaged input is reported.
func TestExpandInJail(t *testing.T) {
	u := jailed(t)
	want := bytes.Repeat([]byte("aloft"), 1<<20)
	var zip bytes.Buffer
	w := gzip.NewWriter(&zip)
	if _, err := w.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	std := enc.EncodeAll(want, nil)
	for name, packed := range map[string][]byte{"gzip": zip.Bytes(), "zstd": std, "two": append(bytes.Clone(std), std...), "plain": want} {
		r, err := u.Expand(t.Context(), bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.HasPrefix(got, want) || len(got)%len(want) != 0 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, packed := range map[string][]byte{"gzip": zip.Bytes()[:zip.Len()/2], "zstd": std[:len(std)/2], "tail": append(bytes.Clone(zip.Bytes()), "more"...)} {
		r, err := u.Expand(t.Context(), bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r); err == nil || strings.Contains(err.Error(), "exit status") {
			t.Errorf("damaged %s: %v", name, err)
		}
		_ = r.Close()
	}
}

// attacks are the actions of a compromised process. Their arguments are the
// layer's folder and the test's arguments.
var attacks = map[string]func(args []string) error{
	"read":  func(args []string) error { _, err := os.ReadFile(args[1]); return err },
	"list":  func(args []string) error { _, err := os.ReadDir(args[1]); return err },
	"write": func(args []string) error { return os.WriteFile(args[1], []byte("x"), 0o600) },
	"link": func(args []string) error {
		_ = os.Symlink(args[1], args[0]+"/out") // if this fails, the next read fails too
		_, err := os.ReadFile(args[0] + "/out")
		return err
	},
	"device": func(args []string) error {
		if err := unix.Mknod(args[0]+"/device", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
			return err
		}
		_, err := os.ReadFile(args[0] + "/device")
		return err
	},
	"trusted": func(args []string) error { return unix.Setxattr(args[0], "trusted.overlay.redirect", []byte("/"), 0) },
	"execute": func(args []string) error {
		if err := os.WriteFile(args[0]+"/program", []byte("#!/bin/sh\n"), 0o4755); err != nil {
			return err
		}
		return syscall.Exec(args[0]+"/program", []string{"program"}, nil)
	},
	"mount":  func(args []string) error { return unix.Mount("tmpfs", args[0], "tmpfs", 0, "size=4k") },
	"chroot": func(args []string) error { return unix.Chroot(args[0]) },
	"handle": func(args []string) error {
		_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, args[0], 0)
		return err
	},
	"dial": func(args []string) error {
		conn, err := net.Dial("tcp", args[1])
		if err == nil {
			err = conn.Close()
		}
		return err
	},
	"memory": func([]string) error {
		held := make([]byte, 3<<30)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
		runtime.KeepAlive(held)
		return nil
	},
	"signal": func(args []string) error { pid, _ := strconv.Atoi(args[1]); return unix.Kill(pid, 0) },

	// These attacks misuse the process's reports to the server.
	"mark": func(args []string) error {
		_ = os.Symlink(filepath.Dir(args[0]), args[0]+"/up")
		to := os.NewFile(reports, "reports")
		for _, dir := range args[1:] {
			if _, err := to.Write(append([]byte{reportMark, 0, 0, 0, byte(1 + len(dir)), byte(opaque | origin)}, dir...)); err != nil {
				return err
			}
		}
		return claimDone()
	},
	"flood": func([]string) error {
		to := os.NewFile(reports, "reports")
		for {
			if _, err := to.Write([]byte{reportEntries, 0, 0, 0, 4, 0, 0, 0, 1}); err != nil {
				return err
			}
		}
	},
	"garbage": func([]string) error {
		_, err := os.NewFile(reports, "reports").Write([]byte("garbage and nothing else"))
		_, _ = io.Copy(io.Discard, os.Stdin)
		return err
	},
	"boast":  func([]string) error { return claimDone() },
	"silent": func([]string) error { _, err := io.Copy(io.Discard, os.Stdin); return err },
	"speech": func([]string) error {
		text := "\x1b[2J" + strings.Repeat("x", 1<<20)
		head := binary.BigEndian.AppendUint32([]byte{reportError}, uint32(4+len(text)))
		_, err := os.NewFile(reports, "reports").Write(append(append(head, 0, 0, 0, 0), text...))
		return errors.Join(err, errors.New("failed"))
	},
	"fill": func(args []string) error {
		for i := 0; ; i++ {
			if err := os.WriteFile(fmt.Sprintf("%s/%d", args[0], i), make([]byte, 1<<16), 0o600); err != nil {
				return err
			}
		}
	},
	"stay": func([]string) error { select {} },
}

// claimDone reports success without reading the archive.
func claimDone() error {
	_, err := os.NewFile(reports, "reports").Write([]byte{reportDone, 0, 0, 0, 0})
	return err
}

// attack makes an attack instead of unpacking a layer into dir. It returns an
// error if the attack failed or the server refused its result.
func attack(t *testing.T, u *Unpacker, in io.Reader, entries func(int) error, dir string, args ...string) error {
	t.Helper()
	stand := *u
	stand.args = append([]string{standName, args[0], dir}, args[1:]...)
	return stand.Layer(t.Context(), in, dir, entries)
}

// TestHostileUnpacker makes each attack in the jail, where it must fail, and in
// this process, where it must succeed.
func TestHostileUnpacker(t *testing.T) {
	u := jailed(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret.key")
	if err := os.WriteFile(secret, []byte("key"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, args := range map[string][]string{
		"Key": {"read", secret}, "Shadow": {"read", "/etc/shadow"}, "Certificates": {"list", "/etc/ssl"}, "Sibling": {"write", filepath.Join(outside, "new")},
		"Link": {"link", secret}, "Device": {"device"}, "Overlay": {"trusted"}, "Mount": {"mount"}, "Handle": {"handle"},
		"TCP": {"dial", l.Addr().String()}, "Memory": {"memory"}, "Signal": {"signal", strconv.Itoa(os.Getppid())},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(outside, name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			err := attack(t, u, strings.NewReader(""), free, dir, args...)
			if err == nil || !strings.Contains(err.Error(), "exit status 1") && name != "Memory" {
				t.Errorf("in the jail: %v, want its own failure", err)
			}
			if args[0] == "device" || args[0] == "memory" {
				return // in this process the attack would never end, or would exhaust the memory
			}
			if err := attacks[args[0]](append([]string{dir}, args[1:]...)); err != nil {
				t.Errorf("it fails here too, so it shows nothing: %v", err)
			}
			if args[0] == "mount" {
				if err := unix.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for name, args := range map[string][]string{"Execute": {"execute"}, "Chroot": {"chroot"}} {
		if err := attack(t, u, strings.NewReader(""), free, t.TempDir(), args...); err == nil || !strings.Contains(err.Error(), "exit status 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostileReports checks that the server trusts no report, and that no
// report keeps it busy.
func TestHostileReports(t *testing.T) {
	u := jailed(t)
	layer := archive(t, item{name: "a", body: strings.Repeat("x", 1<<20)})
	full := errors.New("full")
	counted := 0
	for _, c := range []struct {
		attack  []string
		entries func(int) error
		want    string
	}{
		{[]string{"mark", ".."}, free, "escapes"}, {[]string{"mark", "up"}, free, ""}, {[]string{"mark", "/etc"}, free, "escapes"}, {[]string{"mark", "up/x"}, free, "escapes"},
		{[]string{"mark", "missing"}, free, "no such file"},
		{[]string{"flood"}, func(n int) error {
			if counted += n; counted > 1000 {
				return full
			}
			return nil
		}, "full"},
		{[]string{"garbage"}, free, errReport.Error()},
		{[]string{"boast"}, free, errEarly.Error()},
		{[]string{"silent"}, free, errEarly.Error()},
		{[]string{"speech"}, free, "xxx"},
		{[]string{"fill"}, func(n int) error {
			if n == 0 {
				return full
			}
			return nil
		}, "full"},
	} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "layer")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		err := attack(t, u, bytes.NewReader(layer), c.entries, dir, c.attack...)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > maxError+100 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%v: error is %.200q, want %q", c.attack, fmt.Sprint(err), c.want)
		}
		if has(parent, OpaqueAttr) || has(parent, OriginAttr) || has("/etc", OpaqueAttr) {
			t.Fatalf("%v: a folder outside was marked", c.attack)
		}
	}
}

// TestUnpackerIsKilled checks that the process ends when the caller's context
// ends, and that the caller gets its own errors back.
func TestUnpackerIsKilled(t *testing.T) {
	u := jailed(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	stand := *u
	dir := t.TempDir()
	stand.args = []string{standName, "stay", dir}
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write(archive(t, item{name: "a", body: "x"}))
		cancel(gone)
		_ = w.Close()
	}()
	if err := stand.Layer(ctx, r, dir, free); !errors.Is(err, gone) {
		t.Errorf("cancelled: %v", err)
	}
	full, torn := errors.New("full"), errors.New("torn")
	if err := u.Layer(t.Context(), bytes.NewReader(archive(t, item{name: "a", body: "x"})), t.TempDir(), func(int) error { return full }); !errors.Is(err, full) {
		t.Errorf("a refused entry: %v", err)
	}
	if err := u.Layer(t.Context(), io.MultiReader(bytes.NewReader(archive(t, item{name: "a", body: "x"})[:600]), tornReader{torn}), t.TempDir(), free); !errors.Is(err, torn) {
		t.Errorf("a reader that fails: %v", err)
	}
}

type tornReader struct{ err error }

func (r tornReader) Read([]byte) (int, error) { return 0, r.err }
