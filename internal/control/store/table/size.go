package table

import (
	"context"
	"fmt"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// Owners implements [store.Sizes].
func (s *Store) Owners(ctx context.Context) ([]store.Owner, error) {
	rows, err := s.read.ListOwners(ctx)
	if err != nil {
		return nil, fmt.Errorf("list owners: %w", readError(err))
	}
	all := make([]store.Owner, len(rows))
	for i, r := range rows {
		all[i] = store.Owner{AgentID: r.ID, UserID: r.UserID, Head: r.Head, Layer: r.Layer}
	}
	return all, nil
}

// JournalBytes implements [store.Sizes].
func (s *Store) JournalBytes(ctx context.Context, agentID string, after int64) (bytes, head int64, err error) {
	row, err := s.read.SumEvents(ctx, query.SumEventsParams{AgentID: agentID, After: after})
	if err != nil {
		return 0, 0, fmt.Errorf("size of the journal of %s: %w", agentID, readError(err))
	}
	return row.Bytes, row.Head, nil
}
