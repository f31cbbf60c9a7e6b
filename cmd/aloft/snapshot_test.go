package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine/container"
)

func TestSnapshotsMove(t *testing.T) { snapshotsMove(t, filepath.Join(t.TempDir(), "new")) }

// snapshotsMove moves a snapshot of two layers from one host's data folder to
// another's.
func snapshotsMove(t *testing.T, bucket string) {
	t.Helper()
	here, there := t.TempDir(), t.TempDir()
	for _, data := range []string{here, there} {
		if err := os.MkdirAll(filepath.Join(data, "machines", container.LayersDir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s, err := layer.Open(filepath.Join(here, "machines", container.LayersDir), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 12<<20) // uploaded in several parts, if the bucket supports parts
	rand.NewChaCha8([32]byte{1}).Read(large)
	frozen := func(parent string, files map[string][]byte) string {
		t.Helper()
		upper := filepath.Join(t.TempDir(), "upper")
		if err := os.Mkdir(upper, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(upper, name), data, 0o640); err != nil {
				t.Fatal(err)
			}
		}
		id := layer.NewID(layer.Snapshot)
		if err := s.Freeze(layer.Layer{ID: id, Parent: parent, Image: "host", Kept: true}, upper, ""); err != nil {
			t.Fatal(err)
		}
		return id
	}
	below := frozen("", map[string][]byte{"large": large})
	id := frozen(below, map[string][]byte{"small": []byte("small")})
	aloft := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), &out, &errs); code != want {
			t.Fatalf("%v: exit code %d, want %d: %s", args, code, want, errs.String())
		}
		return out.String() + errs.String()
	}
	aloft(0, "snapshot", "export", id, bucket, "--data", here)
	aloft(0, "snapshot", "import", id, bucket, "--data", there)
	var kept []layer.Layer
	if err := json.Unmarshal([]byte(aloft(0, "snapshot", "list", "--json", "--data", there)), &kept); err != nil || len(kept) != 1 || kept[0].ID != id {
		t.Errorf("the other host keeps %v, %v", kept, err)
	}
	for name, want := range map[string][]byte{below + "/large": large, id + "/small": []byte("small")} {
		if got, err := os.ReadFile(filepath.Join(there, "machines", container.LayersDir, "tree", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the other host has of %s %d bytes, %v", name, len(got), err)
		}
	}
	aloft(0, "snapshot", "delete", id, "--data", there)
	if got := aloft(0, "snapshot", "list", "--data", there); strings.Contains(got, id) {
		t.Errorf("it is still listed: %s", got)
	}
	if got := aloft(1, "snapshot", "export", layer.NewID(layer.Build), bucket, "--data", here); !strings.Contains(got, "snapshot list") {
		t.Errorf("an unknown one has no hint: %s", got)
	}
	aloft(1, "snapshot", "list", "--data", t.TempDir())
}
