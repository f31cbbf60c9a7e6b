package container

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"aloft/internal/control/layer"
	"aloft/internal/need"
)

func TestNeeds(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if got, err := Needs(dir); err != nil || len(got) != 0 {
		t.Errorf("of nothing it is %v, %v", got, err)
	}
	spec := filepath.Join(dir, "machines", "m-1", "spec.json")
	if err := os.MkdirAll(filepath.Dir(spec), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(spec, []byte(`{"Spec":{"Image":"debian:12"},"Image":{"Lower":["/images/layers/oci-1"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	layers, err := layer.Open(filepath.Join(dir, LayersDir), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	upper := filepath.Join(dir, "upper")
	if err := os.Mkdir(upper, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := layers.Freeze(layer.Layer{ID: layer.NewID(layer.Snapshot), Image: "local:base", Pinned: "local:base@sha256:1", Kept: true}, upper, ""); err != nil {
		t.Fatal(err)
	}
	if err := layers.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Needs(dir)
	if want := []string{"debian:12", "/images/layers/oci-1", "local:base@sha256:1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("it is %v, %v; want %v", got, err, want)
	}
	if err := os.WriteFile(spec, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Needs(dir); err == nil {
		t.Error("a machine that cannot be read is no error")
	}
}
