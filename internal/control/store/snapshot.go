package store

import (
	"context"
	"time"

	"aloft/internal/environment"
)

// Snapshots keeps whose the saved disks of machines are. Its methods are safe
// for concurrent use. What is not there is [ErrNotFound].
type Snapshots interface {
	// AddSnapshot keeps a snapshot that is about to be made. One of that ID is [ErrExists].
	AddSnapshot(ctx context.Context, s environment.Snapshot) error
	Snapshot(ctx context.Context, id string) (environment.Snapshot, error)
	// ListSnapshots returns those of a repository, newest first.
	ListSnapshots(ctx context.Context, repo string, limit int) ([]environment.Snapshot, error)
	// AllSnapshots returns those of all repositories, oldest first.
	AllSnapshots(ctx context.Context) ([]environment.Snapshot, error)
	// UseSnapshot keeps that a machine began with the snapshot.
	UseSnapshot(ctx context.Context, id string, at time.Time) error
	// PublishSnapshot keeps which admin lets all members start from the snapshot; 0
	// is nobody.
	PublishSnapshot(ctx context.Context, id string, by int64) error
	// DeleteSnapshot removes what is known of a snapshot.
	DeleteSnapshot(ctx context.Context, id string) error
}
