package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite/query"
	"aloft/internal/environment"
)

// AddSnapshot implements [store.Snapshots].
func (s *Store) AddSnapshot(ctx context.Context, n environment.Snapshot) error {
	err := s.write(ctx, func(tx *tx) error {
		err := tx.q.AddSnapshot(tx.ctx, query.AddSnapshotParams{
			ID: n.ID, UserID: n.UserID, Repo: n.Repo, AgentID: n.AgentID, CreatedAt: nanos(n.CreatedAt),
		})
		if e, ok := errors.AsType[*driver.Error](err); ok && e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY {
			return store.ErrExists // nothing was written
		}
		tx.wrote = true
		return err
	})
	if err != nil {
		return fmt.Errorf("add snapshot %s: %w", n.ID, err)
	}
	return nil
}

// Snapshot implements [store.Snapshots].
func (s *Store) Snapshot(ctx context.Context, id string) (environment.Snapshot, error) {
	row, err := s.read.GetSnapshot(ctx, id)
	if err != nil {
		return environment.Snapshot{}, fmt.Errorf("snapshot: %w", readError(err))
	}
	return snapshotOf(row), nil
}

// ListSnapshots implements [store.Snapshots].
func (s *Store) ListSnapshots(ctx context.Context, repo string, limit int) ([]environment.Snapshot, error) {
	rows, err := s.read.ListSnapshots(ctx, query.ListSnapshotsParams{Repo: repo, Most: int64(max(limit, 0))})
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", readError(err))
	}
	list := make([]environment.Snapshot, len(rows))
	for i, row := range rows {
		list[i] = snapshotOf(row)
	}
	return list, nil
}

func snapshotOf(row query.Snapshot) environment.Snapshot {
	return environment.Snapshot{ID: row.ID, UserID: row.UserID, Repo: row.Repo, AgentID: row.AgentID, CreatedAt: stamp(row.CreatedAt)}
}
