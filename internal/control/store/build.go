package store

import (
	"context"

	"aloft/internal/environment"
)

// Builds stores the builds of environments, and which build of each environment
// is active. Machines start from the active build. Its methods are safe for
// concurrent use. They return [ErrNotFound] if something does not exist.
type Builds interface {
	// AddBuild stores a build that has begun or was skipped. It returns
	// [ErrExists] if the ID is taken.
	AddBuild(ctx context.Context, b environment.Record) error
	// UpdateBuild replaces a build. If activate is true, it also makes it the
	// environment's active build, atomically.
	UpdateBuild(ctx context.Context, b environment.Record, activate bool) error
	// DeleteBuild deletes a build. If it was active, its environment has no
	// active build then.
	DeleteBuild(ctx context.Context, id string) error
	Build(ctx context.Context, id string) (environment.Record, error)
	ActiveBuild(ctx context.Context, environmentID string) (environment.Record, error)
	// ActiveBuilds returns the active build of every environment.
	ActiveBuilds(ctx context.Context) ([]environment.Record, error)
	// ListBuilds returns the environment's builds, newest first, or those of
	// all environments if the id is "".
	ListBuilds(ctx context.Context, environmentID string, q Page) ([]environment.Record, error)
	// OpenBuilds returns the builds in progress, oldest first.
	OpenBuilds(ctx context.Context) ([]environment.Record, error)
}
