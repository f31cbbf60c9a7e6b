package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"aloft/internal/need"
)

// layoutDir is an OCI layout written by a test.
type layoutDir struct {
	t   testing.TB
	dir string
}

func newLayout(t testing.TB) layoutDir {
	t.Helper()
	l := layoutDir{t, t.TempDir()}
	if err := os.MkdirAll(filepath.Join(l.dir, "blobs/sha256"), 0o755); err != nil {
		t.Fatal(err)
	}
	l.write("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return l
}

func (l layoutDir) write(name string, data []byte) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), data, 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l layoutDir) blob(kind string, data []byte) descriptor {
	l.t.Helper()
	sum := sha256.Sum256(data)
	l.write(fmt.Sprintf("blobs/sha256/%x", sum), data)
	return descriptor{MediaType: kind, Digest: fmt.Sprintf("sha256:%x", sum), Size: int64(len(data))}
}

func (l layoutDir) json(kind string, v any) descriptor {
	l.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.blob(kind, data)
}

const (
	manifestKind = "application/vnd.oci.image.manifest.v1+json"
	indexKind    = "application/vnd.oci.image.index.v1+json"
)

// image adds an image with the given archives as layers, each compressed
// differently.
func (l layoutDir) image(archives ...[]byte) descriptor {
	l.t.Helper()
	var m ociManifest
	c := ociConfig{Architecture: runtime.GOARCH, OS: "linux"}
	for i, a := range archives {
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, fmt.Sprintf("sha256:%x", sha256.Sum256(a)))
		m.Layers = append(m.Layers, l.blob("application/vnd.oci.image.layer.v1.tar", pack(l.t, i, a)))
	}
	m.Config = l.json("application/vnd.oci.image.config.v1+json", c)
	return l.json(manifestKind, m)
}

func (l layoutDir) index(d ...descriptor) {
	l.t.Helper()
	data, err := json.Marshal(ociIndex{Manifests: d})
	if err != nil {
		l.t.Fatal(err)
	}
	l.write("index.json", data)
}

func pack(t testing.TB, how int, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	switch how % 3 {
	case 0:
		w := gzip.NewWriter(&buf)
		_, _ = w.Write(data) // writes to memory
		_ = w.Close()
	case 1:
		w, err := zstd.NewWriter(&buf)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(data)
		_ = w.Close()
	default:
		buf.Write(data)
	}
	return buf.Bytes()
}

// smallImage returns three layers: the second deletes files of the first, the
// third replaces /opt.
func smallImage(t testing.TB) [][]byte {
	return [][]byte{
		archive(t,
			item{name: "bin/", kind: tar.TypeDir}, item{name: "bin/sh", body: "#!"},
			item{name: "etc/passwd", body: "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n", mode: 0o644},
			item{name: "etc/group", body: "root:x:0:\n", mode: 0o644},
			item{name: "opt/old", body: "x"}, item{name: "gone", body: "x"}, item{name: "tmp/", kind: tar.TypeDir, mode: 0o1777}),
		archive(t, item{name: ".wh.gone"}, item{name: "new", body: "y"}),
		archive(t, item{name: "opt/.wh..wh..opq"}, item{name: "opt/new", body: "z"}),
	}
}

func open(t testing.TB) *Store {
	t.Helper()
	need.Root(t)
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOCI(t *testing.T) {
	s := open(t)
	l := newLayout(t)
	l.index(l.image(smallImage(t)...))
	img, err := s.Prepare(t.Context(), "oci:"+l.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(img.Lower) != 4 || len(img.Binds) != 0 {
		t.Fatalf("image is %+v", img)
	}
	v := view(img.Lower)
	for name, want := range map[string]bool{"bin/sh": true, "new": true, "gone": false, "opt/old": false, "opt/new": true, "workspace": true, "opt/cursor/artifacts": true, "home/ubuntu/.bashrc": true} {
		if _, info := v.lookup(name); (info != nil) != want {
			t.Errorf("%s is there: %v", name, info != nil)
		}
	}
	if got := string(v.read("etc/passwd")); !strings.HasPrefix(got, "root:x:0:0:root:/root:/bin/sh\nubuntu:x:1000:1000:") || !strings.Contains(got, "node:") {
		t.Errorf("passwd is %q", got)
	}
	again, err := s.Prepare(t.Context(), "oci:"+l.dir, nil)
	if err != nil || strings.Join(again.Lower, " ") != strings.Join(img.Lower, " ") {
		t.Errorf("the second time it is %+v, %v", again, err)
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "layers"))
	if err != nil || len(entries) != 4 {
		t.Errorf("the store holds %v, %v", entries, err)
	}
}

func TestOCITags(t *testing.T) {
	s := open(t)
	l := newLayout(t)
	one, two := l.image(smallImage(t)[0]), l.image(smallImage(t)...)
	one.Annotations = map[string]string{tagAnnotation: "one"}
	inner := ociIndex{Manifests: []descriptor{two, {MediaType: manifestKind, Digest: one.Digest}}}
	inner.Manifests[0].Platform = &struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}{runtime.GOARCH, "linux"}
	inner.Manifests[1].Platform = &struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}{"pdp11", "linux"}
	many := l.json(indexKind, inner)
	many.Annotations = map[string]string{tagAnnotation: "many"}
	l.index(one, many)
	for ref, layers := range map[string]int{"oci:" + l.dir + ":one": 2, "oci:" + l.dir + ":many": 4} {
		// A folder whose whole name matches takes precedence over a name with a
		// tag.
		img, err := s.Prepare(t.Context(), ref, nil)
		if err != nil || len(img.Lower) != layers {
			t.Errorf("%s: %+v, %v", ref, img, err)
		}
	}
	for _, ref := range []string{"oci:" + l.dir, "oci:" + l.dir + ":three"} {
		if _, err := s.Prepare(t.Context(), ref, nil); err == nil || !strings.Contains(err.Error(), "oci:DIR:TAG") {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestOCIDamaged(t *testing.T) {
	for name, damage := range map[string]func(l layoutDir){
		"no index":         func(l layoutDir) { _ = os.Remove(filepath.Join(l.dir, "index.json")) },
		"index is no JSON": func(l layoutDir) { l.write("index.json", []byte("{")) },
		"escaping digest":  func(l layoutDir) { l.index(descriptor{MediaType: manifestKind, Digest: "sha256:../../../etc/passwd"}) },
		"other content":    func(l layoutDir) { each(l, func(p string) { _ = os.WriteFile(p, []byte("{}"), 0o600) }) },
		"a flipped bit":    func(l layoutDir) { each(l, flip) },
		"blob is missing":  func(l layoutDir) { each(l, func(p string) { _ = os.Remove(p) }) },
		"blob is a link":   func(l layoutDir) { each(l, func(p string) { _ = os.Remove(p); _ = os.Symlink("/etc/passwd", p) }) },
		"index is a pipe":  func(l layoutDir) { pipe(filepath.Join(l.dir, "index.json")) },
		"blob is a pipe":   func(l layoutDir) { each(l, pipe) },
		"layer is a pipe": func(l layoutDir) {
			each(l, func(p string) {
				if data, _ := os.ReadFile(p); data[0] != '{' {
					pipe(p)
				}
			})
		},
		"not an image":  func(l layoutDir) { l.index(descriptor{MediaType: "text/plain"}) },
		"hostile layer": func(l layoutDir) { l.index(l.image(archive(l.t, item{name: "../x", body: "x"}))) },
		"no shell":      func(l layoutDir) { l.index(l.image(archive(l.t, item{name: "x", body: "x"}))) },
		"an index in itself": func(l layoutDir) {
			d := l.image(smallImage(l.t)...)
			for range maxNesting + 2 {
				d = l.json(indexKind, ociIndex{Manifests: []descriptor{d}})
			}
			l.index(d)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			l := newLayout(t)
			l.index(l.image(smallImage(t)...))
			damage(l)
			_, err := s.Prepare(t.Context(), "oci:"+l.dir, nil)
			if err == nil {
				t.Fatal("no error")
			}
			entries, _ := os.ReadDir(filepath.Join(s.dir, "layers"))
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), unfinished) {
					t.Errorf("it leaves %s", e.Name())
				}
			}
		})
	}
}

func each(l layoutDir, do func(path string)) {
	entries, _ := os.ReadDir(filepath.Join(l.dir, "blobs/sha256"))
	for _, e := range entries {
		do(filepath.Join(l.dir, "blobs/sha256", e.Name()))
	}
}

// pipe replaces a file by a named pipe that nobody writes to.
func pipe(path string) {
	_ = os.Remove(path)
	_ = syscall.Mkfifo(path, 0o600)
}

func flip(path string) {
	data, _ := os.ReadFile(path)
	data[len(data)/2] ^= 1
	_ = os.WriteFile(path, data, 0o600)
}

func FuzzIndex(f *testing.F) {
	l := newLayout(f)
	l.index(l.image(archive(f, item{name: "bin/sh"})))
	data, err := os.ReadFile(filepath.Join(l.dir, "index.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"manifests":[{"mediaType":"` + indexKind + `","digest":"sha256:x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := os.OpenRoot(l.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = root.Close() }()
		_, _, _ = layout{root}.choose(data, "", 0)
	})
}
