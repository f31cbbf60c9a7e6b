package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
	"aloft/internal/environment"
)

// PutEnvironment implements [store.Environments].
func (s *Store) PutEnvironment(ctx context.Context, e environment.Saved) error {
	data, err := json.Marshal(e)
	version, err2 := json.Marshal(environment.Version{ID: e.VersionID, Text: e.Text, UserID: e.UserID, CreatedAt: e.UpdatedAt})
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	owner := e.UserID
	if e.Team {
		owner = 0
	}
	err = s.db.Write(ctx, environments, func(tx *Tx) error {
		tx.Wrote = true
		if err := tx.Q.PutEnvironment(tx.Ctx, query.PutEnvironmentParams{ID: e.ID, UserID: owner, CreatedAt: nanos(e.CreatedAt), Data: string(data)}); err != nil {
			return err
		}
		return tx.Q.PutEnvironmentVersion(tx.Ctx, query.PutEnvironmentVersionParams{
			EnvironmentID: e.ID, ID: e.VersionID, CreatedAt: nanos(e.UpdatedAt), Data: string(version),
		})
	})
	if err != nil {
		return fmt.Errorf("put environment %s: %w", e.ID, err)
	}
	return nil
}

// Environment implements [store.Environments].
func (s *Store) Environment(ctx context.Context, id string) (environment.Saved, error) {
	data, err := s.read.GetEnvironment(ctx, id)
	if err != nil {
		return environment.Saved{}, fmt.Errorf("environment: %w", readError(err))
	}
	var e environment.Saved
	return e, json.Unmarshal([]byte(data), &e)
}

// ListEnvironments implements [store.Environments].
func (s *Store) ListEnvironments(ctx context.Context, userID int64, q store.Page) ([]environment.Saved, error) {
	return pageOf[environment.Saved](s.read.ListEnvironments(ctx, query.ListEnvironmentsParams{
		UserID: userID, BeforeTime: before(q), BeforeID: q.BeforeID, Most: int64(max(q.Limit, 0)),
	}))
}

// DeleteEnvironment implements [store.Environments].
func (s *Store) DeleteEnvironment(ctx context.Context, id string) error {
	err := s.db.Write(ctx, environments, func(tx *Tx) error {
		tx.Wrote = true
		if err := tx.Q.DeleteEnvironmentVersions(tx.Ctx, id); err != nil {
			return err
		}
		return requireRow(tx.Q.DeleteEnvironment(tx.Ctx, id))
	})
	if err != nil {
		return fmt.Errorf("delete environment %s: %w", id, err)
	}
	return nil
}

// EnvironmentHistory implements [store.Environments].
func (s *Store) EnvironmentHistory(ctx context.Context, id string, q store.Page) ([]environment.Version, error) {
	return pageOf[environment.Version](s.read.ListEnvironmentVersions(ctx, query.ListEnvironmentVersionsParams{
		EnvironmentID: id, BeforeTime: before(q), BeforeID: q.BeforeID, Most: int64(max(q.Limit, 0)),
	}))
}

// before returns the time of a page's key.
func before(q store.Page) int64 {
	if q.BeforeTime.IsZero() {
		return math.MaxInt64
	}
	return nanos(q.BeforeTime)
}

// pageOf decodes rows of JSON.
func pageOf[T any](rows []string, err error) ([]T, error) {
	if err != nil {
		return nil, readError(err)
	}
	list := make([]T, len(rows))
	for i, data := range rows {
		if err := json.Unmarshal([]byte(data), &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}
