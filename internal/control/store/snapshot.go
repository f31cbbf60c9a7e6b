package store

import (
	"context"
	"time"

	"aloft/internal/environment"
)

// Snapshots stores the records of saved disks. Its methods are safe for
// concurrent use. They return [ErrNotFound] if something does not exist.
type Snapshots interface {
	// AddSnapshot stores the record of a snapshot before it is created. It
	// returns [ErrExists] if the ID is taken.
	AddSnapshot(ctx context.Context, s environment.Snapshot) error
	Snapshot(ctx context.Context, id string) (environment.Snapshot, error)
	// ListSnapshots returns the snapshots of a repository, newest first.
	ListSnapshots(ctx context.Context, repo string, limit int) ([]environment.Snapshot, error)
	// AllSnapshots returns the snapshots of all repositories, oldest first.
	AllSnapshots(ctx context.Context) ([]environment.Snapshot, error)
	// UseSnapshot records that a machine was started from the snapshot.
	UseSnapshot(ctx context.Context, id string, at time.Time) error
	// PublishSnapshot records which admin lets all members start from the
	// snapshot; 0 unpublishes it.
	PublishSnapshot(ctx context.Context, id string, by int64) error
	// DeleteSnapshot deletes the record of a snapshot.
	DeleteSnapshot(ctx context.Context, id string) error
}
