package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/fault"
	"aloft/internal/lockfile"
	"aloft/internal/need"
)

var logger = slog.New(slog.DiscardHandler)

func write(t testing.TB, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// example makes a data folder in which every entry of [Folder] has content.
func example(t testing.TB) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	for _, e := range Folder {
		if strings.HasPrefix(e.Name, remoteFile) {
			continue
		}
		name := strings.ReplaceAll(e.Name, "*", "x")
		switch e.How {
		case Inside:
			if err := os.MkdirAll(filepath.Join(data, name), 0o700); err != nil {
				t.Fatal(err)
			}
		default:
			if name != layersPath && name != imagesPath && name != artifacts && name != workFolder && name != "connections" && name != "builds/images" && name != "machines/machines" {
				write(t, filepath.Join(data, name), "content of "+name, 0o640)
			}
		}
	}
	write(t, filepath.Join(data, artifacts, "bc-1", index), `["a"]`, 0o600)
	write(t, filepath.Join(data, artifacts, "bc-1", "a"), "an artifact", 0o600)
	write(t, filepath.Join(data, "connections", "bc-1", "connections.0"), "{}\n", 0o600)
	write(t, filepath.Join(data, "builds/images/key"), "local:build/x", 0o600)
	write(t, filepath.Join(data, "machines/machines/bc-1/disk"), "live", 0o600)
	return data
}

func copyFile(_ context.Context, from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

func key(t testing.TB) *age.X25519Identity {
	t.Helper()
	k, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func create(t testing.TB, data string, k *age.X25519Identity) ([]byte, Summary) {
	t.Helper()
	var out bytes.Buffer
	sum, err := Create(t.Context(), &out, Options{Data: data, Version: "test", Database: copyFile, Recipients: []age.Recipient{k.Recipient()}, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), sum
}

func restore(t testing.TB, text []byte, data string, k age.Identity) error {
	t.Helper()
	_, err := Restore(t.Context(), bytes.NewReader(text), RestoreOptions{Data: data, Identities: []age.Identity{k}, Logger: logger})
	return err
}

// list returns the files below dir with their mode, owner and content.
func list(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		st, _ := info.Sys().(*syscall.Stat_t)
		text := ""
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			text = string(b)
		}
		out[rel] = fmt.Sprintf("%v %d:%d %s", info.Mode(), st.Uid, st.Gid, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRestore checks that a restored folder has exactly the entries that are copied or
// saved, with their contents, modes and owners.
func TestRestore(t *testing.T) {
	data, k := example(t), key(t)
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(data, "secret.key"), 1234, 5678); err != nil {
			t.Fatal(err)
		}
	}
	text, sum := create(t, data, k)
	if sum.Machines != 1 || len(sum.Unknown) > 0 || sum.Files < 10 {
		t.Errorf("the summary is %+v", sum)
	}
	if bytes.Contains(text, []byte("content of")) {
		t.Error("the backup is not encrypted")
	}
	if left, _ := os.ReadDir(filepath.Join(data, workFolder)); len(left) > 0 {
		t.Errorf("the work folder holds %v", left)
	}
	to := filepath.Join(t.TempDir(), "new")
	if err := restore(t, text, to, k); err != nil {
		t.Fatal(err)
	}
	want, got := list(t, data), list(t, to)
	for name, is := range want {
		if name == "." {
			continue
		}
		if e, ok := find(name); ok && (e.How == Remade || e.How == LeftOut || name == database) || !ok && !mayHold(name, false) {
			delete(want, name)
			if _, ok := got[name]; ok && name != database {
				t.Errorf("%s is restored", name)
			}
			delete(got, name)
			continue
		}
		if got[name] != is {
			t.Errorf("%s: %q; want %q", name, got[name], is)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok && name != "." {
			t.Errorf("%s is there and was not", name)
		}
	}
	if b, err := os.ReadFile(filepath.Join(to, database)); err != nil || string(b) != "content of aloft.db" {
		t.Errorf("the database: %q, %v", b, err)
	}
}

// TestLayersAndImages checks that a backup contains the kept layers with their
// parents, and the images that no registry has with their layers.
func TestLayersAndImages(t *testing.T) {
	data, k := example(t), key(t)
	s, err := layer.Open(filepath.Join(data, layersPath), logger)
	if err != nil {
		t.Fatal(err)
	}
	freeze := func(parent, content string, kept bool) string {
		upper := filepath.Join(t.TempDir(), "upper")
		write(t, filepath.Join(upper, "dir/file"), content, 0o751)
		id := layer.NewID(layer.Snapshot)
		if err := s.Freeze(layer.Layer{ID: id, Parent: parent, Image: "host", Kept: kept, Created: time.Now().UTC()}, upper, ""); err != nil {
			t.Fatal(err)
		}
		return id
	}
	below := freeze("", "below", true)
	top := freeze(below, "top", true)
	if err := s.Delete(below); err != nil {
		t.Fatal(err)
	}
	layerKey := "oci-" + strings.Repeat("ab", 32)
	images, err := image.Open(filepath.Join(data, imagesPath), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	root := t.TempDir()
	write(t, filepath.Join(root, "etc/name"), "an image", 0o644)
	if err := layer.Pack(t.Context(), &packed, root); err != nil {
		t.Fatal(err)
	}
	if err := images.AddLayer(t.Context(), layerKey, &packed); err != nil {
		t.Fatal(err)
	}
	if err := images.AddRecord(image.Record{Name: "local:base", Digest: "sha256:1", Layers: []string{layerKey}}); err != nil {
		t.Fatal(err)
	}

	text, _ := create(t, data, k)
	to := filepath.Join(t.TempDir(), "new")
	if err := restore(t, text, to, k); err != nil {
		t.Fatal(err)
	}
	restored, err := layer.Open(filepath.Join(to, layersPath), logger)
	if err != nil {
		t.Fatal(err)
	}
	if err := restored.Collect(); err != nil {
		t.Fatal(err)
	}
	stack, err := restored.Stack(top)
	if err != nil || len(stack) != 2 || stack[1].ID != below || stack[1].Kept {
		t.Fatalf("the stack is %+v, %v", stack, err)
	}
	for id, want := range map[string]string{below: "below", top: "top"} {
		path := filepath.Join(to, layersPath, "tree", id, "dir/file")
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != want || info.Mode().Perm() != 0o751 {
			t.Errorf("layer %s: %q, %v, %v", id, b, info.Mode(), err)
		}
	}
	images, err = image.Open(filepath.Join(to, imagesPath), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	records, err := images.Unpublished()
	if err != nil || len(records) != 1 || records[0].Name != "local:base" {
		t.Errorf("the images are %+v, %v", records, err)
	}
	if b, err := os.ReadFile(filepath.Join(images.LayerDir(layerKey), "etc/name")); err != nil || string(b) != "an image" {
		t.Errorf("the image's file: %q, %v", b, err)
	}
}

func wantFault(t *testing.T, err error, code string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != code || f.Advice == "" {
		t.Errorf("error is %v; want the code %s and a hint", err, code)
	}
}

// nothing checks that a failed restore has left no files next to its target.
func nothing(t *testing.T, to string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Dir(to))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A backup omits disks that no archive can represent, and the disks that are
// based on them. It contains all others.
func TestDisksThatNoArchiveHolds(t *testing.T) {
	data, k := example(t), key(t)
	s, err := layer.Open(filepath.Join(data, layersPath), logger)
	if err != nil {
		t.Fatal(err)
	}
	freeze := func(parent string, fill func(dir string)) string {
		t.Helper()
		upper := filepath.Join(t.TempDir(), "upper")
		write(t, filepath.Join(upper, "file"), "x", 0o644)
		fill(upper)
		id := layer.NewID(layer.Snapshot)
		if err := s.Freeze(layer.Layer{ID: id, Parent: parent, Image: "host", Kept: true, Created: time.Now().UTC()}, upper, ""); err != nil {
			t.Fatal(err)
		}
		return id
	}
	deep := freeze("", func(dir string) {
		at, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		for range 3000 { // the path has 6000 bytes
			next, err := (*os.Root)(nil), at.Mkdir("d", 0o755)
			if err == nil {
				next, err = at.OpenRoot("d")
			}
			if err := errors.Join(err, at.Close()); err != nil {
				t.Fatal(err)
			}
			at = next
		}
		if err := at.Close(); err != nil {
			t.Fatal(err)
		}
	})
	above := freeze(deep, func(string) {})
	sparse := freeze("", func(dir string) {
		if err := os.Truncate(filepath.Join(dir, "file"), 1<<40); err != nil {
			t.Fatal(err)
		}
	})
	good := freeze("", func(string) {})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	text, sum := create(t, data, k)
	if words := strings.Join(sum.LeftOut, "\n"); len(sum.LeftOut) != 2 || !strings.Contains(words, deep) || !strings.Contains(words, sparse) {
		t.Errorf("left out: %q", sum.LeftOut)
	}
	to := filepath.Join(t.TempDir(), "data")
	if err := restore(t, text, to, k); err != nil {
		t.Fatal(err)
	}
	if s, err = layer.Open(filepath.Join(to, layersPath), logger); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for id, want := range map[string]bool{deep: false, above: false, sparse: false, good: true} {
		if s.Has(id) != want {
			t.Errorf("%s is restored: %v", id, !want)
		}
	}
}

func TestDamagedBackups(t *testing.T) {
	data, k := example(t), key(t)
	text, _ := create(t, data, k)
	for _, n := range []int{0, 10, 100, 300, len(text) / 2, len(text) - 17, len(text) - 1} {
		to := filepath.Join(t.TempDir(), "new")
		wantFault(t, restore(t, text[:n], to, k), "backup_damaged")
		nothing(t, to)
	}
	for n := 40; n < len(text); n += max(1, len(text)/50) {
		changed := slices.Clone(text)
		changed[n] ^= 1
		to := filepath.Join(t.TempDir(), "new")
		if err := restore(t, changed, to, k); err == nil {
			t.Errorf("byte %d was changed, and it was restored", n)
		}
		nothing(t, to)
	}
	to := filepath.Join(t.TempDir(), "new")
	wantFault(t, restore(t, append(slices.Clone(text), 'x'), to, k), "backup_damaged")
	wantFault(t, restore(t, text, to, key(t)), "wrong_key")
	nothing(t, to)
}

// seal returns an encrypted archive of the entries. It appends their manifest
// if the last entry is not a manifest.
func seal(t testing.TB, k *age.X25519Identity, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := age.Encrypt(&out, k.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(w)
	if err != nil {
		t.Fatal(err)
	}
	a := newArchive(z, nil)
	for _, e := range entries {
		if e.Typeflag == tar.TypeReg {
			err = a.add(&tar.Header{Name: e.Name, Mode: 0o600, Size: int64(len(e.text))}, func(w io.Writer) error { _, err := io.WriteString(w, e.text); return err })
		} else {
			err = a.tar.WriteHeader(&e.Header)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(entries) == 0 || entries[len(entries)-1].Name != manifestName {
		if err := a.document(manifestName, manifest{Files: a.files}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.tar.Close(), z.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type entry struct {
	tar.Header
	text string
}

func regular(name, text string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg}, text}
}

func head(format int) entry {
	text, _ := json.Marshal(header{Format: format, Aloft: "x"})
	return regular(headerName, string(text))
}

func TestHostileBackups(t *testing.T) {
	k := key(t)
	db := regular("data/"+database, "db")
	if err := restore(t, seal(t, k, []entry{head(1), db}), filepath.Join(t.TempDir(), "new"), k); err != nil {
		t.Fatalf("one that is not hostile: %v", err)
	}
	link := func(kind byte) entry {
		return entry{Header: tar.Header{Name: "data/artifacts/x", Typeflag: kind, Linkname: "/etc/passwd"}}
	}
	for name, entries := range map[string][]entry{
		"UpByData":          {head(1), db, regular("data/../../evil", "x")},
		"UpByArtifacts":     {head(1), db, regular("data/artifacts/../../evil", "x")},
		"Absolute":          {head(1), db, regular("/tmp/evil", "x")},
		"AbsoluteData":      {head(1), db, regular("data//etc/evil", "x")},
		"NotOfABackup":      {head(1), db, regular("data/bin/runc", "x")},
		"LiveMachine":       {head(1), db, regular("data/machines/machines/m/spec.json", "x")},
		"LayerAsData":       {head(1), db, regular("data/machines/layers/meta/x.json", "x")},
		"Symlink":           {head(1), db, link(tar.TypeSymlink), regular("data/artifacts/x/y", "x")},
		"HardLink":          {head(1), db, link(tar.TypeLink)},
		"Device":            {head(1), db, link(tar.TypeChar)},
		"Twice":             {head(1), db, db},
		"NoHeader":          {db},
		"TwoHeaders":        {head(1), head(1), db},
		"FormatZero":        {head(0), db},
		"NoDatabase":        {head(1)},
		"LayerID":           {head(1), db, regular("layers/x.json", `{"id":"../../x"}`), regular("layers/../../x.tar", "x")},
		"LayerUndescribed":  {head(1), db, regular("layers/x.tar", "x")},
		"OtherKind":         {head(1), db, regular("other/x", "x")},
		"ManifestOfNothing": {head(1), db, regular(manifestName, `{"files":[]}`)},
		"FileBelowFile":     {head(1), db, regular("data/artifacts/x", "x"), regular("data/artifacts/x/y", "x")},
		"ImageKey":          {head(1), db, regular("images/layers/../../x", "x")},
		"ImageWithout":      {head(1), db, regular("images/0.json", `{"name":"local:x","layers":["oci-x"]}`)},
		"ImageOfRegistry":   {head(1), db, regular("images/0.json", `{"name":"docker.io/library/debian:12","layers":[]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "new")
			if err := restore(t, seal(t, k, entries), to, k); err == nil {
				t.Error("it was restored")
			}
			nothing(t, to)
		})
	}
	to := filepath.Join(t.TempDir(), "new")
	wantFault(t, restore(t, seal(t, k, []entry{head(Format + 1), db}), to, k), "backup_too_new")
}

// TestRestoreLeavesRoom restores backups that do not fit on the disk, by their bytes and
// by the number of their files.
func TestRestoreLeavesRoom(t *testing.T) {
	need.Root(t)
	k := key(t)
	db := regular("data/"+database, "db")
	many := []entry{head(1), db}
	for i := range 5000 {
		many = append(many, regular(fmt.Sprintf("data/artifacts/%d", i), ""))
	}
	for name, entries := range map[string][]entry{
		"bytes": {head(1), db, regular("data/artifacts/x", strings.Repeat("0", 60<<20))},
		"files": many,
	} {
		t.Run(name, func(t *testing.T) {
			small := t.TempDir()
			if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=64m,nr_inodes=4096"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
			to := filepath.Join(small, "new")
			text := seal(t, k, entries)
			wantFault(t, restore(t, text, to, k), "disk_full")
			nothing(t, to)
			if err := restore(t, text, filepath.Join(t.TempDir(), "new"), k); err != nil {
				t.Errorf("on a larger disk: %v", err)
			}
		})
	}
}

// FuzzRestore restores archives made by somebody who has the public key.
func FuzzRestore(f *testing.F) {
	k := key(f)
	f.Add("data/artifacts/a", byte(tar.TypeReg), "x", "data/artifacts/../../evil", byte(tar.TypeReg), "/etc")
	f.Add("data/artifacts/a", byte(tar.TypeSymlink), "/tmp", "data/artifacts/a/b", byte(tar.TypeReg), "x")
	f.Add("layers/snapshot-20260101-00000000-0000-0000-0000-000000000000.json", byte(tar.TypeReg), "{}", "images/0.json", byte(tar.TypeReg), "{}")
	f.Fuzz(func(t *testing.T, name1 string, kind1 byte, text1, name2 string, kind2 byte, text2 string) {
		var out bytes.Buffer
		w, err := age.Encrypt(&out, k.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		z, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		a := newArchive(z, nil)
		headText := head(1).text
		_ = a.add(&tar.Header{Name: headerName, Size: int64(len(headText))}, func(w io.Writer) error { _, err := io.WriteString(w, headText); return err })
		_ = a.add(&tar.Header{Name: "data/" + database, Size: 1}, func(w io.Writer) error { _, err := io.WriteString(w, "d"); return err })
		for _, e := range []entry{{tar.Header{Name: name1, Typeflag: kind1, Linkname: text1}, text1}, {tar.Header{Name: name2, Typeflag: kind2, Linkname: text2}, text2}} {
			if e.Typeflag == tar.TypeReg {
				err = a.add(&tar.Header{Name: e.Name, Mode: 0o777, Size: int64(len(e.text))}, func(w io.Writer) error { _, err := io.WriteString(w, e.text); return err })
			} else {
				err = a.tar.WriteHeader(&e.Header)
			}
			if err != nil {
				t.Skip() // tar cannot represent it
			}
		}
		if err := a.document(manifestName, manifest{Files: a.files}); err != nil {
			t.Skip()
		}
		if err := errors.Join(a.tar.Close(), z.Close(), w.Close()); err != nil {
			t.Skip()
		}
		parent := t.TempDir()
		to := filepath.Join(parent, "a", "new")
		err = restore(t, out.Bytes(), to, k)
		for _, dir := range []string{parent, filepath.Dir(to)} {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if path := filepath.Join(dir, e.Name()); path != filepath.Dir(to) && (path != to || err != nil) {
					t.Errorf("%s was made (%v)", path, err)
				}
			}
		}
		if err != nil {
			return
		}
		for name := range list(t, to) {
			if fs.ValidPath(name) && name != "." && !mayHold(name, false) && !mayHold(name, true) && !strings.HasPrefix(name, layersPath) && !strings.HasPrefix(name, imagesPath) {
				t.Errorf("%q was restored", name)
			}
		}
	})
}

func TestTargets(t *testing.T) {
	data, k := example(t), key(t)
	text, _ := create(t, data, k)
	wantFault(t, restore(t, text, data, k), "data_not_empty")

	lock, err := os.Open(filepath.Join(data, database+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := lockfile.Exclusive(lock, 0); err != nil {
		t.Fatal(err)
	}
	wantFault(t, restore(t, text, data, k), "data_in_use")

	// A killed restore has left its folder, and another restore is running.
	to := filepath.Join(t.TempDir(), "new")
	write(t, filepath.Join(filepath.Dir(to), ".new.restore-killed/aloft.db"), "x", 0o600)
	other := filepath.Join(filepath.Dir(to), ".new.restore-running")
	write(t, filepath.Join(other, "aloft.db"), "x", 0o600)
	held, err := os.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := lockfile.Exclusive(held, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := restore(t, text, to, k); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the restored folder is %v, %v", info.Mode(), err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(to), ".new.restore-*"))
	if !slices.Equal(left, []string{other}) {
		t.Errorf("left: %v", left)
	}
}

// TestFolderTakenMeanwhile checks that if a server starts on the folder during a
// restore, the server's files are kept.
func TestFolderTakenMeanwhile(t *testing.T) {
	data, k := example(t), key(t)
	text, _ := create(t, data, k)
	to := filepath.Join(t.TempDir(), "new")
	_, err := Restore(t.Context(), bytes.NewReader(text), RestoreOptions{
		Data: to, Identities: []age.Identity{k}, Logger: logger,
		Progress: func(name string, _ int64) {
			if name == manifestName {
				write(t, filepath.Join(to, database), "of the server", 0o600)
			}
		},
	})
	if err == nil {
		t.Error("it was restored over the server's folder")
	}
	if b, err := os.ReadFile(filepath.Join(to, database)); err != nil || string(b) != "of the server" {
		t.Errorf("the server's file: %q, %v", b, err)
	}
}

func TestWhatCannotBeBackedUp(t *testing.T) {
	k := key(t)
	try := func(data string) error {
		_, err := Create(t.Context(), io.Discard, Options{Data: data, Database: copyFile, Recipients: []age.Recipient{k.Recipient()}, Logger: logger})
		return err
	}
	wantFault(t, try(t.TempDir()), "no_data")
	remote := t.TempDir()
	write(t, filepath.Join(remote, remoteFile), "server-1", 0o600)
	wantFault(t, try(remote), "store_elsewhere")
	data := example(t)
	_, done, err := openWork(filepath.Join(data, workFolder))
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, try(data), "backup_running")
	if err := done(); err != nil {
		t.Fatal(err)
	}
	if err := try(data); err != nil {
		t.Error(err)
	}
}

// TestArtifactsWhileTheyChange replaces an agent's artifacts during a backup. The
// restored folder must contain each file that the restored index names.
func TestArtifactsWhileTheyChange(t *testing.T) {
	data, k := example(t), key(t)
	dir := filepath.Join(data, artifacts, "bc-1")
	changes := 0
	change := func() {
		changes++
		name := fmt.Sprint("a", changes)
		write(t, filepath.Join(dir, name), name, 0o600)
		write(t, filepath.Join(dir, "new"), name, 0o600)
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, index)); err != nil {
			t.Fatal(err)
		}
		if changes > 1 {
			if err := os.Remove(filepath.Join(dir, fmt.Sprint("a", changes-1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	change()
	var out bytes.Buffer
	_, err := Create(t.Context(), &out, Options{
		Data: data, Database: copyFile, Recipients: []age.Recipient{k.Recipient()}, Logger: logger,
		Progress: func(string, int64) { change() },
	})
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "new")
	if err := restore(t, out.Bytes(), to, k); err != nil {
		t.Fatal(err)
	}
	named, err := os.ReadFile(filepath.Join(to, artifacts, "bc-1", index))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(to, artifacts, "bc-1", string(named))); err != nil || !bytes.Equal(b, named) {
		t.Errorf("the index names %s, which holds %q, %v", named, b, err)
	}
}

// TestFolderIsDocumented checks that the page has a row for each entry, which
// says how a backup treats the entry.
func TestFolderIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/guide/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	does := map[How]string{Copied: "copied", Saved: "saved", Remade: "recreated", LeftOut: "**not included**"}
	for _, e := range Folder {
		if e.How == Inside {
			continue
		}
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", e.Name, does[e.How], e.Why); !strings.Contains(string(page), row) {
			t.Errorf("the page has no row\n%s", row)
		}
	}
}

// TestUnknown checks that a backup reports entries that [Folder] does not list.
func TestUnknown(t *testing.T) {
	data := example(t)
	write(t, filepath.Join(data, "new"), "x", 0o600)
	write(t, filepath.Join(data, "machines/new"), "x", 0o600)
	if got, err := Unknown(data); err != nil || !slices.Equal(got, []string{"new", "machines/new"}) {
		t.Errorf("unknown are %v, %v", got, err)
	}
}
