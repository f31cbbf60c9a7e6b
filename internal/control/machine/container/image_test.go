package container

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"aloft/internal/control/image"
	registryclient "aloft/internal/control/image/registry"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/need"
)

// TestRootfsImage runs a machine whose root contains none of the host's files.
func TestRootfsImage(t *testing.T) {
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, t.TempDir(), path)
			tree := t.TempDir()
			if err := os.Mkdir(filepath.Join(tree, "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(tree, "bin/sh"), nil, 0o755); err != nil {
				t.Fatal(err)
			}
			m := create(t, r, machine.Spec{Image: "rootfs:" + tree})
			if got := ask(t, m); got.Starts != 1 {
				t.Errorf("the guest answers %+v", got)
			}
			if entries, err := os.ReadDir(tree); err != nil || len(entries) != 1 {
				t.Errorf("the machine has changed its image: %v, %v", entries, err)
			}
		})
	}
}

// TestManyLayers mounts more layers than fit into the mount options as paths.
func TestManyLayers(t *testing.T) {
	need.Root(t)
	dir := filepath.Join(t.TempDir(), "a,b:c d")
	var lower []string
	for i := range 130 {
		l := filepath.Join(dir, fmt.Sprintf("a-layer-with-a-long-name-%d", i))
		if err := os.MkdirAll(l, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(l, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		lower = append(lower, l)
	}
	root := filepath.Join(dir, "root")
	for _, d := range []string{"root", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := layer.Mount(root, lower, filepath.Join(dir, "upper"), filepath.Join(dir, "work")); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := layer.Unmount(root); err != nil {
			t.Error(err)
		}
	}()
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != len(lower) {
		t.Errorf("%d files of %d layers, %v", len(entries), len(lower), err)
	}
}

// TestTagHasMoved starts a machine from a layer after the tag of the layer's
// image has moved. The machine must get the image on which the layer was saved,
// and that image must be kept as long as the layer exists.
func TestTagHasMoved(t *testing.T) {
	runc := engines(t)["runc"]
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://") + "/team/base:1"
	ref, err := name.ParseReference(at)
	if err != nil {
		t.Fatal(err)
	}
	push := func(madeOf string) {
		t.Helper()
		img, err := crane.Image(map[string][]byte{"bin/sh": nil, "etc/made-of": []byte(madeOf)})
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config.OS, config.Architecture = "linux", goruntime.GOARCH
		if img, err = mutate.ConfigFile(img, config); err == nil {
			err = remote.Write(ref, img)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	push("the first")
	open := func(dir string) *Runtime {
		t.Helper()
		conf := config(t, dir, runc)
		images, err := image.Open(ImageDir(dir), image.Options{Registry: registryclient.Config{Insecure: []string{strings.TrimPrefix(server.URL, "http://")}}})
		if err != nil {
			t.Fatal(err)
		}
		conf.Images = images
		return start(t, conf)
	}
	r := open(t.TempDir())
	madeOf := func(r *Runtime, id, above string) string {
		t.Helper()
		m, err := r.Create(t.Context(), machine.Spec{ID: id, Image: at, Layer: above})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Destroy(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		data, err := os.ReadFile(filepath.Join(m.(*Machine).rootOfInit(), "etc/made-of"))
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	first := create(t, r, machine.Spec{ID: "m-1", Image: at})
	if err := first.(machine.Snapshotter).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	saved := layer.NewID(layer.Build)
	if err := first.(machine.Snapshotter).Freeze(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	push("another")
	if got := madeOf(r, "m-2", ""); got != "another" {
		t.Errorf("a machine of the tag is made of %q", got)
	}
	if got := madeOf(r, "m-3", saved); got != "the first" {
		t.Errorf("a machine of the layer is made of %q", got)
	}
	for _, id := range []string{"m-1", "m-3"} {
		m, err := r.Open(t.Context(), id)
		if err == nil {
			err = m.Destroy(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Prune as another process would: with an empty cache and without the
	// registry.
	keep, err := Needs(r.conf.Dir)
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	images, err := image.Open(ImageDir(r.conf.Dir), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := images.Prune(t.Context(), image.PruneOptions{Keep: keep}); err != nil {
		t.Fatal(err)
	}
	if got := madeOf(open(r.conf.Dir), "m-4", saved); got != "the first" {
		t.Errorf("after a prune a machine of the layer is made of %q", got)
	}
}
