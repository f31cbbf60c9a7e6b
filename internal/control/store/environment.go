package store

import (
	"context"

	"aloft/internal/environment"
)

// Environments keeps saved environments and what they said before. Its methods
// are safe for concurrent use. What is not there is [ErrNotFound].
type Environments interface {
	// PutEnvironment keeps the environment in place of the one of its ID. A
	// VersionID that is new goes into its history.
	PutEnvironment(ctx context.Context, e environment.Saved) error
	Environment(ctx context.Context, id string) (environment.Saved, error)
	// ListEnvironments returns the user's own and the team's, newest first.
	ListEnvironments(ctx context.Context, userID int64, q Page) ([]environment.Saved, error)
	// DeleteEnvironment removes the environment with its history.
	DeleteEnvironment(ctx context.Context, id string) error
	// EnvironmentHistory returns its versions, newest first.
	EnvironmentHistory(ctx context.Context, id string, q Page) ([]environment.Version, error)
}
