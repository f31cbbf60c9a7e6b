package table

import (
	"context"
	"fmt"
	"time"

	"aloft/internal/control/store/table/query"
	"aloft/internal/environment"
)

// AddSnapshot implements [store.Snapshots].
func (s *Store) AddSnapshot(ctx context.Context, n environment.Snapshot) error {
	err := s.db.Write(ctx, snapshots, func(tx *Tx) error {
		err := tx.Refused(tx.Q.AddSnapshot(tx.Ctx, query.AddSnapshotParams{
			ID: n.ID, UserID: n.UserID, Repo: n.Repo, AgentID: n.AgentID, CreatedAt: nanos(n.CreatedAt),
		}))
		tx.Wrote = err == nil
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
	return snapshotsOf(rows), nil
}

// AllSnapshots implements [store.Snapshots].
func (s *Store) AllSnapshots(ctx context.Context) ([]environment.Snapshot, error) {
	rows, err := s.read.AllSnapshots(ctx)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", readError(err))
	}
	return snapshotsOf(rows), nil
}

// UseSnapshot implements [store.Snapshots].
func (s *Store) UseSnapshot(ctx context.Context, id string, at time.Time) error {
	err := s.db.Write(ctx, snapshots, func(tx *Tx) error {
		n, err := tx.Q.UseSnapshot(tx.Ctx, query.UseSnapshotParams{UsedAt: nanos(at), ID: id})
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("use snapshot %s: %w", id, err)
	}
	return nil
}

// PublishSnapshot implements [store.Snapshots].
func (s *Store) PublishSnapshot(ctx context.Context, id string, by int64) error {
	err := s.db.Write(ctx, snapshots, func(tx *Tx) error {
		n, err := tx.Q.PublishSnapshot(tx.Ctx, query.PublishSnapshotParams{PublishedBy: by, ID: id})
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("publish snapshot %s: %w", id, err)
	}
	return nil
}

// DeleteSnapshot implements [store.Snapshots].
func (s *Store) DeleteSnapshot(ctx context.Context, id string) error {
	err := s.db.Write(ctx, snapshots, func(tx *Tx) error {
		n, err := tx.Q.DeleteSnapshot(tx.Ctx, id)
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("delete snapshot %s: %w", id, err)
	}
	return nil
}

func snapshotsOf(rows []query.Snapshot) []environment.Snapshot {
	list := make([]environment.Snapshot, len(rows))
	for i, row := range rows {
		list[i] = snapshotOf(row)
	}
	return list
}

func snapshotOf(row query.Snapshot) environment.Snapshot {
	n := environment.Snapshot{ID: row.ID, UserID: row.UserID, Repo: row.Repo, AgentID: row.AgentID, CreatedAt: stamp(row.CreatedAt), PublishedBy: row.PublishedBy}
	if row.UsedAt != 0 {
		n.UsedAt = stamp(row.UsedAt)
	}
	return n
}
