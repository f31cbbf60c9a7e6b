package container

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/need"
)

// TestRootfsImage runs a machine from a tree that has nothing of the host's.
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

// TestManyLayers mounts more than the kernel takes as paths.
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
