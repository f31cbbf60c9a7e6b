package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"aloft/internal/atomicfile"
	"aloft/internal/control/layer"
	"aloft/internal/fault"
)

// Freeze implements [machine.Snapshotter].
func (m *Machine) Freeze(ctx context.Context, id string) error {
	if err := m.freeze(ctx, id); err != nil {
		return fmt.Errorf("freeze machine %s: %w", m.id, err)
	}
	m.r.tend()
	return nil
}

func (m *Machine) freeze(ctx context.Context, id string) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if m.running() {
		return errors.New("the machine is running; stop it first")
	}
	rec, err := m.record()
	if err != nil {
		return err
	}
	// Nothing may write to the upper layer while it is moved.
	if err := m.clear(ctx); err != nil {
		return err
	}
	if err := m.stand(&rec); err != nil {
		return err
	}
	if m.r.layers.Has(id) {
		return fault.Conflict("layer %s already exists", id).Named("snapshot_exists")
	}
	if err := m.packDockerData(ctx, rec); err != nil {
		return fmt.Errorf("save the data of Docker: %w", err)
	}
	rec.Freezing = id
	if err := m.writeRecord(rec); err != nil {
		return err
	}
	m.r.step("freeze: noted")
	l := layer.Layer{ID: id, Parent: rec.Layer, Image: rec.Spec.Image, Pinned: rec.Image.Pinned, Kept: true}
	if err := m.r.layers.Freeze(l, m.path("upper"), m.claim()); err != nil {
		rec.Freezing = ""
		return errors.Join(err, m.writeRecord(rec))
	}
	m.r.step("freeze: frozen")
	return m.stand(&rec)
}

// claim returns the name under which the machine claims its layers.
func (m *Machine) claim() string { return layer.MachineClaim(m.id) }

// stand prepares the layers below the machine's disk: it claims them until the
// machine's folder is deleted, and finishes an interrupted freeze. The caller
// holds the lock, and nothing is mounted.
func (m *Machine) stand(rec *record) error {
	moved := rec.Freezing != "" && m.r.layers.Has(rec.Freezing) // false: the upper layer has not been moved yet
	if moved {
		rec.Layer = rec.Freezing
	}
	below, err := m.r.layers.Stack(rec.Layer)
	if err != nil {
		return err
	}
	if len(below) > 0 && below[0].Image != rec.Spec.Image {
		return fault.Invalid("%s is based on the image %s, not on %s", rec.Layer, below[0].Image, rec.Spec.Image).
			Named("image_mismatch").Hint("use the image that it was saved on, or start without the snapshot")
	}
	if rec.below, err = m.r.layers.Claim(m.claim(), m.dir, rec.Layer); err != nil {
		return err
	}
	if err := m.freshUpper(rec.Layer); err != nil {
		return err
	}
	m.r.step("stand: upper")
	if rec.Freezing == "" {
		return nil
	}
	rec.Freezing = ""
	return m.writeRecord(*rec)
}

// freshUpper creates the upper layer unless it exists.
func (m *Machine) freshUpper(above string) error {
	upper := m.path("upper")
	if _, err := os.Lstat(upper); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	half := upper + ".new"
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	if err := m.r.layers.Top(above, half); err != nil {
		return err
	}
	return os.Rename(half, upper)
}

// lower returns the lower directories of the machine's overlay, topmost first:
// our own programs, which nothing may replace, then the saved layers, then the
// image.
func (rec record) lower() []string {
	own, img := rec.Image.Lower[:1], rec.Image.Lower[1:]
	return slices.Concat(own, rec.below, img)
}

func (m *Machine) writeRecord(rec record) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return atomicfile.Write(m.path("spec.json"), data, 0o600)
}

// tend runs the maintenance of the layer store in the background.
func (r *Runtime) tend() {
	r.working.Go(func() {
		if err := r.layers.Tend(r.ctx); err != nil && r.ctx.Err() == nil {
			r.log.Error("cannot maintain saved layers", "err", err)
		}
	})
}
