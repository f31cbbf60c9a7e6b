package fake

import (
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/control/machine"
	"aloft/internal/control/machine/machinetest"
	"aloft/internal/control/machine/machinetest/standin"
)

func TestRuntime(t *testing.T) {
	machinetest.Run(t, machinetest.Harness{
		New:     func(_ *testing.T, dir string) machine.Runtime { return New(dir, standin.Serve) },
		Spec:    machine.Spec{Image: "host"},
		Standin: true,
		Kill: func(t *testing.T, r machine.Runtime, id string) {
			if err := r.(*Runtime).handle(id).Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		HalfMade: func(t *testing.T, dir, id string) {
			if err := os.MkdirAll(filepath.Join(dir, id, diskName), 0o700); err != nil {
				t.Fatal(err)
			}
		},
	})
}
