package layer

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"gocloud.dev/blob/memblob"

	"aloft/internal/need"
)

// FuzzManifest imports arbitrary snapshot manifests. An accepted manifest must
// describe a single stack of layers with valid ids and the snapshot on top.
func FuzzManifest(f *testing.F) {
	need.Root(f)
	s := open(f, f.TempDir())
	upper := filepath.Join(f.TempDir(), "upper")
	if err := os.Mkdir(upper, 0o755); err != nil {
		f.Fatal(err)
	}
	id := NewID(Snapshot)
	if err := s.Freeze(Layer{ID: id, Image: "host", Kept: true}, upper, ""); err != nil {
		f.Fatal(err)
	}
	b := bucket(f)
	if err := s.Export(f.Context(), id, b, nil); err != nil {
		f.Fatal(err)
	}
	whole, err := b.ReadAll(f.Context(), manifestKey(id))
	if err != nil {
		f.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(whole, &m); err != nil {
		f.Fatal(err)
	}
	key, err := blobKey(m.Config.Digest)
	if err != nil {
		f.Fatal(err)
	}
	config, err := b.ReadAll(f.Context(), key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, config)
	f.Add([]byte(`{"config":{"digest":"sha256:../../x"},"layers":[{}]}`), []byte(`{"os":"linux","aloft":[{"id":"../x"}]}`))
	f.Fuzz(func(t *testing.T, raw, config []byte) {
		from := memblob.OpenBucket(nil)
		defer func() { _ = from.Close() }()
		var m manifest
		if json.Unmarshal(raw, &m) == nil { // the digest of the configuration must be valid too
			m.Config.Digest = digestOf(sha256.Sum256(config))
			raw, _ = json.Marshal(m)
			key, _ := blobKey(m.Config.Digest)
			if err := from.WriteAll(t.Context(), key, config, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := from.WriteAll(t.Context(), manifestKey(id), raw, nil); err != nil {
			t.Fatal(err)
		}
		layers, err := readManifest(t.Context(), id, from)
		if err != nil {
			return
		}
		parent := ""
		for _, l := range layers {
			if !ValidID(l.ID) || l.Parent != parent || l.Kept || l.Packed == nil {
				t.Errorf("taken: %+v above %q", l, parent)
			}
			parent = l.ID
		}
		if parent != id {
			t.Errorf("taken: %s for %s", parent, id)
		}
	})
}

// FuzzUnpackSaved checks that no saved layer writes outside of its folder.
func FuzzUnpackSaved(f *testing.F) {
	need.Root(f)
	tree := f.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "file"), []byte("x"), 0o600); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(tree, "link")); err != nil {
		f.Fatal(err)
	}
	var archive bytes.Buffer
	if err := Pack(f.Context(), &archive, tree); err != nil {
		f.Fatal(err)
	}
	s, err := Open(f.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(archive.Bytes())
	f.Add(bytes.ReplaceAll(archive.Bytes(), []byte("file"), []byte("../x")))
	f.Add(bytes.ReplaceAll(archive.Bytes(), []byte("file"), []byte("link")))
	f.Fuzz(func(t *testing.T, data []byte) {
		outside := t.TempDir()
		dir := filepath.Join(outside, "layer")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = s.Unpack(t.Context(), bytes.NewReader(data), dir)
		if entries, _ := os.ReadDir(outside); len(entries) != 1 {
			t.Errorf("written outside: %v", entries)
		}
	})
}
