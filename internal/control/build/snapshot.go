package build

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// Disk returns the size and state of a snapshot's files, or false if this
// server has none. Counting stops when ctx ends.
func (b *Builder) Disk(ctx context.Context, n environment.Snapshot) (environment.Disk, bool) {
	d := environment.Disk{Snapshot: n, Size: -1}
	if b.Layers == nil {
		return d, false
	}
	if l, err := b.Layers.Layer(n.ID); err != nil || !l.Kept {
		return d, false
	}
	if size, err := b.Layers.Size(ctx, n.ID); err == nil {
		d.Size = size
	}
	if b.SnapshotFor > 0 {
		d.ExpiresAt = lastBegun(n).Add(b.SnapshotFor)
	}
	return d, true
}

// RemoveDisk deletes a snapshot's files. Machines that started from them keep
// working.
func (b *Builder) RemoveDisk(id string) error {
	if b.Layers == nil {
		return nil
	}
	return b.drop(id)
}

// lastBegun returns roughly when a machine last started from a snapshot or, if
// never, when the snapshot was saved.
func lastBegun(n environment.Snapshot) time.Time {
	if n.UsedAt.After(n.CreatedAt) {
		return n.UsedAt
	}
	return n.CreatedAt
}

// SaveSnapshot records a snapshot and then calls save to create its disk under
// the snapshot's ID. So a crash leaves at most a record without a disk, which
// the next tidy removes. A disk without a record would have no owner.
func (b *Builder) SaveSnapshot(ctx context.Context, n environment.Snapshot, save func(ctx context.Context, id string) error) error {
	b.mu.Lock()
	b.saving[n.ID] = true // keep tidy from removing it meanwhile
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.saving, n.ID)
		b.mu.Unlock()
	}()
	if err := b.Snapshots.AddSnapshot(ctx, n); err != nil {
		return fmt.Errorf("record snapshot %s: %w", n.ID, err)
	}
	b.step("snapshot: recorded")
	err := save(ctx, n.ID)
	b.step("snapshot: saved")
	if err != nil {
		return errors.Join(err, b.forgetHalf(context.WithoutCancel(ctx), n))
	}
	return nil
}

// forgetHalf deletes the record of a snapshot that has no disk.
func (b *Builder) forgetHalf(ctx context.Context, n environment.Snapshot) error {
	l, err := b.Layers.Layer(n.ID)
	if err == nil && l.Kept {
		return nil
	}
	if err != nil && !fault.Is(err, fault.KindNotFound) {
		return err
	}
	if err := b.Snapshots.DeleteSnapshot(ctx, n.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("forget snapshot %s: %w", n.ID, err)
	}
	return nil
}

// tidySnapshots deletes snapshots that have not been used for too long, and
// records whose disk was never created or has been deleted.
func (b *Builder) tidySnapshots(ctx context.Context) error {
	if b.Snapshots == nil {
		return nil
	}
	list, err := b.Snapshots.AllSnapshots(ctx)
	errs := []error{err}
	for _, n := range list {
		if l, err := b.Layers.Layer(n.ID); err != nil || !l.Kept {
			b.mu.Lock()
			saving := b.saving[n.ID]
			b.mu.Unlock()
			if !saving {
				errs = append(errs, b.forgetHalf(ctx, n)) // forgetHalf checks again, because the disk may have just been saved
			}
			continue
		}
		last := lastBegun(n)
		if b.SnapshotFor == 0 || !b.expired.due(n.ID, !isYoung(last, b.SnapshotFor)) {
			continue
		}
		b.Logger.Info("removed an unused snapshot", "snapshot", n.ID, "repository", n.Repo, "used", last)
		b.expired.forget(n.ID)
		errs = append(errs, b.drop(n.ID), b.Snapshots.DeleteSnapshot(ctx, n.ID))
	}
	return errors.Join(errs...)
}
