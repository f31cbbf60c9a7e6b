package build

import (
	"context"
	"time"

	"aloft/internal/environment"
)

// Disk returns what is known of a snapshot's files, and false where there are
// none here. They are counted until ctx ends.
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

// RemoveDisk gives up a snapshot's files. Machines that began with them go on.
func (b *Builder) RemoveDisk(id string) error {
	if b.Layers == nil {
		return nil
	}
	return b.drop(id)
}

// lastBegun is about when a machine last began with a snapshot, or when it was saved.
func lastBegun(n environment.Snapshot) time.Time {
	if n.UsedAt.After(n.CreatedAt) {
		return n.UsedAt
	}
	return n.CreatedAt
}
