package table

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
	"aloft/internal/environment"
)

// AddBuild implements [store.Builds].
func (s *Store) AddBuild(ctx context.Context, b environment.Record) error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	err = s.db.Write(ctx, builds, func(tx *Tx) error {
		err := tx.Refused(tx.Q.AddBuild(tx.Ctx, query.AddBuildParams{
			ID: b.ID, EnvironmentID: b.EnvironmentID, Status: string(b.Status), CreatedAt: nanos(b.CreatedAt), Data: string(data),
		}))
		tx.Wrote = err == nil
		return err
	})
	if err != nil {
		return fmt.Errorf("add build %s: %w", b.ID, err)
	}
	return nil
}

// UpdateBuild implements [store.Builds].
func (s *Store) UpdateBuild(ctx context.Context, b environment.Record, activate bool) error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	err = s.db.Write(ctx, builds, func(tx *Tx) error {
		n, err := tx.Q.UpdateBuild(tx.Ctx, query.UpdateBuildParams{Status: string(b.Status), Data: string(data), ID: b.ID})
		tx.Wrote = n > 0
		if err = requireRow(n, err); err != nil || !activate {
			return err
		}
		return tx.Q.ActivateBuild(tx.Ctx, query.ActivateBuildParams{EnvironmentID: b.EnvironmentID, BuildID: b.ID})
	})
	if err != nil {
		return fmt.Errorf("update build %s: %w", b.ID, err)
	}
	return nil
}

// DeleteBuild implements [store.Builds].
func (s *Store) DeleteBuild(ctx context.Context, id string) error {
	err := s.db.Write(ctx, builds, func(tx *Tx) error {
		if err := tx.Q.DeactivateBuild(tx.Ctx, id); err != nil {
			return err
		}
		n, err := tx.Q.DeleteBuild(tx.Ctx, id)
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("delete build %s: %w", id, err)
	}
	return nil
}

// Build implements [store.Builds].
func (s *Store) Build(ctx context.Context, id string) (environment.Record, error) {
	return buildOf(s.read.GetBuild(ctx, id))
}

// ActiveBuild implements [store.Builds].
func (s *Store) ActiveBuild(ctx context.Context, environmentID string) (environment.Record, error) {
	return buildOf(s.read.ActiveBuild(ctx, environmentID))
}

// ActiveBuilds implements [store.Builds].
func (s *Store) ActiveBuilds(ctx context.Context) ([]environment.Record, error) {
	return buildsOf(s.read.ActiveBuilds(ctx))
}

// ListBuilds implements [store.Builds].
func (s *Store) ListBuilds(ctx context.Context, environmentID string, q store.Page) ([]environment.Record, error) {
	before := int64(math.MaxInt64)
	if !q.BeforeTime.IsZero() {
		before = nanos(q.BeforeTime)
	}
	most := int64(max(q.Limit, 0))
	if environmentID == "" {
		return buildsOf(s.read.ListBuilds(ctx, query.ListBuildsParams{BeforeTime: before, BeforeID: q.BeforeID, Most: most}))
	}
	return buildsOf(s.read.ListBuildsOf(ctx, query.ListBuildsOfParams{
		EnvironmentID: environmentID, BeforeTime: before, BeforeID: q.BeforeID, Most: most,
	}))
}

// OpenBuilds implements [store.Builds].
func (s *Store) OpenBuilds(ctx context.Context) ([]environment.Record, error) {
	return buildsOf(s.read.OpenBuilds(ctx))
}

func buildOf(data string, err error) (environment.Record, error) {
	if err != nil {
		return environment.Record{}, fmt.Errorf("build: %w", readError(err))
	}
	var b environment.Record
	if err := json.Unmarshal([]byte(data), &b); err != nil {
		return b, fmt.Errorf("build: %w", err)
	}
	return b, nil
}

func buildsOf(rows []string, err error) ([]environment.Record, error) {
	if err != nil {
		return nil, fmt.Errorf("list builds: %w", readError(err))
	}
	list := make([]environment.Record, len(rows))
	for i, data := range rows {
		if list[i], err = buildOf(data, nil); err != nil {
			return nil, err
		}
	}
	return list, nil
}
