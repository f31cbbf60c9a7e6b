package machinetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"aloft/internal/control/machine"
)

func newLayerID() string { return "snapshot-20260102-" + uuid.NewString() }

// snapshotter creates a machine whose disk can be saved. It skips the test if
// the runtime cannot save disks.
func (h Harness) snapshotter(t *testing.T, r machine.Runtime, id, layer string) machine.Snapshotter {
	t.Helper()
	spec := h.Spec
	spec.Layer = layer
	h.Spec = spec
	s, ok := h.create(t, r, id).(machine.Snapshotter)
	if !ok {
		t.Skip("this runtime saves no disks")
	}
	return s
}

// started checks that the machine runs, and that its guest has started want
// times on the machine's disk.
func (h Harness) started(t *testing.T, m machine.Machine, want int) {
	t.Helper()
	if reply := h.checkAnswers(t, m); h.Standin && reply.Starts != want {
		t.Errorf("the guest of %s counts %d starts on its disk, want %d", m.ID(), reply.Starts, want)
	}
}

func testStop(t *testing.T, h Harness) {
	r := h.New(t, t.TempDir())
	m := h.snapshotter(t, r, "m-1", "")
	h.started(t, m, 1) // a connection may succeed before the count is written
	c := Connect(t, m)
	for range 2 {
		if err := m.Stop(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-c.Done():
	case <-within(t).Done():
		t.Error("a connection outlives the stop")
	}
	if ids, _ := r.List(t.Context()); !slices.Equal(ids, []string{"m-1"}) {
		t.Errorf("List is %v", ids)
	}
	if err := m.Restart(within(t)); err != nil {
		t.Fatal(err)
	}
	h.started(t, m, 2)
}

func testFreeze(t *testing.T, h Harness) {
	dir := t.TempDir()
	r := h.New(t, dir)
	first := h.snapshotter(t, r, "m-1", "")
	h.started(t, first, 1)
	layer := newLayerID()
	if err := first.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := first.Freeze(within(t), layer); err != nil {
		t.Fatal(err)
	}
	// Two machines from one layer, and the original machine, must not see each
	// other's changes, even after a restart of the server.
	after := h.New(t, dir)
	second, third := h.snapshotter(t, r, "m-2", layer), h.snapshotter(t, after, "m-3", layer)
	h.started(t, second, 2)
	h.started(t, third, 2)
	for n := 2; n <= 3; n++ {
		if err := first.Restart(within(t)); err != nil {
			t.Fatal(err)
		}
		h.started(t, first, n)
		if err := first.Stop(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	// The layer outlives its original machine.
	if err := first.Destroy(within(t)); err != nil {
		t.Fatal(err)
	}
	h.started(t, h.snapshotter(t, after, "m-4", layer), 2)
}

func testFreezeStack(t *testing.T, h Harness) {
	r := h.New(t, t.TempDir())
	m := h.snapshotter(t, r, "m-1", "")
	var layers []string
	for n := 1; n <= 5; n++ {
		h.started(t, m, n)
		layers = append(layers, newLayerID())
		if err := m.Stop(within(t)); err != nil {
			t.Fatal(err)
		}
		if err := m.Freeze(within(t), layers[n-1]); err != nil {
			t.Fatal(err)
		}
		if err := m.Restart(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	for i, layer := range layers {
		h.started(t, h.snapshotter(t, r, fmt.Sprintf("from-%d", i), layer), i+2)
	}
}

func testFreezeRefuses(t *testing.T, h Harness) {
	r := h.New(t, t.TempDir())
	m := h.snapshotter(t, r, "m-1", "")
	layer := newLayerID()
	if err := m.Freeze(within(t), layer); err == nil {
		t.Error("Freeze of a running machine is no error")
	}
	h.started(t, m, 1)
	if err := m.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", ".", "../x", "snapshot-1", layer + "/x"} {
		if err := m.Freeze(within(t), bad); err == nil {
			t.Errorf("Freeze as %q is no error", bad)
		}
	}
	if err := m.Freeze(within(t), layer); err != nil {
		t.Fatal(err)
	}
	if err := m.Freeze(within(t), layer); err == nil {
		t.Error("Freeze as a layer that is there is no error")
	}
	if err := m.Restart(within(t)); err != nil {
		t.Fatal(err)
	}
	h.started(t, m, 2)
	for _, bad := range []string{newLayerID(), "../m-1", "x"} {
		spec := h.spec("m-2")
		spec.Layer = bad
		if _, err := r.Create(t.Context(), spec); err == nil {
			t.Errorf("Create from the layer %q is no error", bad)
		}
	}
	if ids, _ := r.List(t.Context()); !slices.Equal(ids, []string{"m-1"}) {
		t.Errorf("List is %v", ids)
	}
}
