package server

import (
	"context"
	"testing"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/fault"
)

// oneLayer is a store with a layer of an image.
type oneLayer struct{ l layer.Layer }

func (o oneLayer) Layer(id string) (layer.Layer, error) {
	if id != o.l.ID {
		return layer.Layer{}, fault.NotFound("no layer %s", id)
	}
	return o.l, nil
}
func (o oneLayer) List() ([]layer.Layer, error)                            { return []layer.Layer{o.l}, nil }
func (oneLayer) Delete(string) error                                       { return nil }
func (oneLayer) Size(context.Context, string) (int64, error)               { return 0, nil }
func (oneLayer) Needs() ([]layer.Need, error)                              { return nil, nil }
func (oneLayer) DiskUsage(context.Context, string) (b, i int64, err error) { return 0, 0, nil }

// TestAllow checks which machines a compromised server may create.
func TestAllow(t *testing.T) {
	c := machineConfig{Image: "rootfs:/srv/image", MemoryBytes: 1 << 30, CPUs: 2, PIDs: 100}
	within := c.limits()
	layers := oneLayer{layer.Layer{ID: "l", Image: "oci:/srv/old"}}
	more := func(change func(*machine.Limits)) machine.Limits {
		l := within
		change(&l)
		return l
	}
	for name, tt := range map[string]struct {
		spec machine.Spec
		want bool
	}{
		"Default":        {machine.Spec{Image: "rootfs:/srv/image", Limits: within}, true},
		"Registry":       {machine.Spec{Image: "debian:12", Limits: within}, true},
		"Imported":       {machine.Spec{Image: "local:a", Limits: within}, true},
		"EarlierDefault": {machine.Spec{Image: "oci:/srv/old", Layer: "l", Limits: within}, true},
		"Root":           {machine.Spec{Image: "rootfs:/", Limits: within}, false},
		"Folder":         {machine.Spec{Image: "oci:/srv/old", Limits: within}, false},
		"OtherLayer":     {machine.Spec{Image: "rootfs:/", Layer: "l", Limits: within}, false},
		"Memory":         {machine.Spec{Image: "debian:12", Limits: more(func(l *machine.Limits) { l.MemoryBytes++ })}, false},
		"NoLimit":        {machine.Spec{Image: "debian:12", Limits: more(func(l *machine.Limits) { l.MemoryBytes = 0 })}, false},
		"CPUs":           {machine.Spec{Image: "debian:12", Limits: more(func(l *machine.Limits) { l.CPUs = 3 })}, false},
		"PIDs":           {machine.Spec{Image: "debian:12", Limits: more(func(l *machine.Limits) { l.PIDs = 1000 })}, false},
	} {
		if err := allow(tt.spec, c, layers); (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
