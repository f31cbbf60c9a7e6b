package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine/container"
)

func TestSnapshotsMove(t *testing.T) {
	here, there, bucket := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "new")
	for _, data := range []string{here, there} {
		if err := os.MkdirAll(filepath.Join(data, "machines", container.LayersDir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s, err := layer.Open(filepath.Join(here, "machines", container.LayersDir), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	upper := filepath.Join(t.TempDir(), "upper")
	if err := os.Mkdir(upper, 0o755); err != nil {
		t.Fatal(err)
	}
	id := layer.NewID(layer.Snapshot)
	if err := s.Freeze(layer.Layer{ID: id, Image: "host", Kept: true}, upper, ""); err != nil {
		t.Fatal(err)
	}
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
	aloft(0, "snapshot", "delete", id, "--data", there)
	if got := aloft(0, "snapshot", "list", "--data", there); strings.Contains(got, id) {
		t.Errorf("it is still listed: %s", got)
	}
	if got := aloft(1, "snapshot", "export", layer.NewID(layer.Build), bucket, "--data", here); !strings.Contains(got, "snapshot list") {
		t.Errorf("an unknown one has no hint: %s", got)
	}
	aloft(1, "snapshot", "list", "--data", t.TempDir())
}
