package store

import (
	"context"

	"aloft/internal/environment"
)

// Builds keeps what was done to make environments ready, and which build of
// each environment is the active one: what its machines start from. Its methods
// are safe for concurrent use. What is not there is [ErrNotFound].
type Builds interface {
	// AddBuild keeps a build that begins, or was skipped. One of that ID is [ErrExists].
	AddBuild(ctx context.Context, b environment.Record) error
	// UpdateBuild replaces a build. With activate it becomes its environment's
	// active one, in the same moment.
	UpdateBuild(ctx context.Context, b environment.Record, activate bool) error
	// DeleteBuild removes a build, and with it its being active.
	DeleteBuild(ctx context.Context, id string) error
	Build(ctx context.Context, id string) (environment.Record, error)
	ActiveBuild(ctx context.Context, environmentID string) (environment.Record, error)
	// ActiveBuilds returns the active build of every environment.
	ActiveBuilds(ctx context.Context) ([]environment.Record, error)
	// ListBuilds returns the environment's builds, newest first; those of all
	// environments without an id.
	ListBuilds(ctx context.Context, environmentID string, q Page) ([]environment.Record, error)
	// OpenBuilds returns the builds in progress, oldest first.
	OpenBuilds(ctx context.Context) ([]environment.Record, error)
}
