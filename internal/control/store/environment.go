package store

import (
	"context"
	"fmt"

	"aloft/internal/environment"
)

// Environments stores saved environments and their history. Its methods are
// safe for concurrent use. They return [ErrNotFound] if something does not
// exist.
type Environments interface {
	// PutEnvironment stores the environment, replacing the environment with the
	// same ID. A new VersionID is added to its history.
	PutEnvironment(ctx context.Context, e environment.Saved) error
	Environment(ctx context.Context, id string) (environment.Saved, error)
	// ListEnvironments returns the user's and the team's environments, newest
	// first.
	ListEnvironments(ctx context.Context, userID int64, q Page) ([]environment.Saved, error)
	// DeleteEnvironment deletes the environment with its history.
	DeleteEnvironment(ctx context.Context, id string) error
	// EnvironmentHistory returns the environment's versions, newest first.
	EnvironmentHistory(ctx context.Context, id string, q Page) ([]environment.Version, error)
}

// EnvironmentsNamed returns the user's and the team's environments with the
// given name.
func EnvironmentsNamed(ctx context.Context, environments Environments, userID int64, name string) (named []environment.Saved, err error) {
	for p := (Page{Limit: environmentsPerRead}); ; {
		list, err := environments.ListEnvironments(ctx, userID, p)
		if err != nil {
			return nil, fmt.Errorf("list environments: %w", err)
		}
		for _, e := range list {
			if e.Name == name {
				named = append(named, e)
			}
			p.BeforeTime, p.BeforeID = e.CreatedAt, e.ID
		}
		if len(list) < p.Limit {
			return named, nil
		}
	}
}

const environmentsPerRead = 100
