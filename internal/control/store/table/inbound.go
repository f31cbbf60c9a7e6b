package table

import (
	"context"
	"fmt"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// AddInbound implements [store.Inbox].
func (s *Store) AddInbound(ctx context.Context, e store.InboundEvent) (added bool, err error) {
	err = s.db.Write(ctx, alone, func(tx *Tx) error {
		tx.Wrote = true
		n, err := tx.Q.AddInbound(tx.Ctx, query.AddInboundParams{
			ID: e.ID, Source: e.Source, Connection: e.Connection, Delivery: e.Delivery, Kind: e.Kind,
			ReceivedAt: nanos(e.ReceivedAt), Size: int64(len(e.Body)), Body: e.Body, Until: nanos(e.ReceivedAt.Add(store.HandleInboundWithin)),
		})
		added = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("store the event %s: %w", e.ID, err)
	}
	return added, nil
}

// QueuedInbound implements [store.Inbox].
func (s *Store) QueuedInbound(ctx context.Context) (int, error) {
	n, err := s.read.CountQueuedInbound(ctx)
	if err != nil {
		return 0, fmt.Errorf("count queued events: %w", err)
	}
	return int(n), nil
}

// Inbound implements [store.Inbox].
func (s *Store) Inbound(ctx context.Context, state store.InboundState, p store.Page) ([]store.InboundEvent, error) {
	beforeTime, beforeID, most := bounds(p)
	rows, err := s.read.ListInbound(ctx, query.ListInboundParams{State: string(state), BeforeTime: beforeTime, BeforeID: beforeID, Most: most})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	all := make([]store.InboundEvent, len(rows))
	for i, row := range rows {
		all[i] = store.InboundEvent{
			ID: row.ID, Source: row.Source, Connection: row.Connection, Delivery: row.Delivery, Kind: row.Kind, ReceivedAt: stamp(row.ReceivedAt),
			Size: row.Size, Kept: row.Kept > 0, State: store.InboundState(row.State), Reason: row.Reason, Attempts: int(row.Attempts),
			NextAt: stamp(row.NextAt), Until: stamp(row.Until),
		}
	}
	return all, nil
}

// InboundEvent implements [store.Inbox].
func (s *Store) InboundEvent(ctx context.Context, id string) (store.InboundEvent, error) {
	row, err := s.read.GetInbound(ctx, id)
	if err != nil {
		return store.InboundEvent{}, fmt.Errorf("event %s: %w", id, readError(err))
	}
	return eventOf(row), nil
}

// eventOf returns the event of a row with its body.
func eventOf(row query.InboundEvent) store.InboundEvent {
	return store.InboundEvent{
		ID: row.ID, Source: row.Source, Connection: row.Connection, Delivery: row.Delivery, Kind: row.Kind, ReceivedAt: stamp(row.ReceivedAt),
		Size: row.Size, Body: row.Body, Kept: len(row.Body) > 0, State: store.InboundState(row.State), Reason: row.Reason, Attempts: int(row.Attempts),
		NextAt: stamp(row.NextAt), Until: stamp(row.Until),
	}
}

// ClaimInbound implements [store.Inbox].
func (s *Store) ClaimInbound(ctx context.Context, owner string, again time.Duration, limit int) ([]store.InboundEvent, error) {
	now := time.Now()
	due := query.DueInboundParams{Now: nanos(now), Most: int64(max(limit, 0))}
	rows, err := claimDue(ctx, s, inbound, due, (*query.Queries).DueInbound, func(tx *Tx, row query.InboundEvent) error {
		return tx.Q.ClaimInbound(tx.Ctx, query.ClaimInboundParams{Owner: owner, NextAt: nanos(now.Add(again)), ID: row.ID})
	})
	if err != nil {
		return nil, fmt.Errorf("claim events: %w", err)
	}
	all := make([]store.InboundEvent, len(rows))
	for i, row := range rows {
		all[i] = eventOf(row)
	}
	return all, nil
}

// ReleaseInbound implements [store.Inbox].
func (s *Store) ReleaseInbound(ctx context.Context, owner string) error {
	release := query.ReleaseInboundParams{Now: time.Now().UnixNano(), Owner: owner}
	return writeOne(ctx, s, inbound, "release events", release, (*query.Queries).ReleaseInbound)
}

// PutInbound implements [store.Inbox].
func (s *Store) PutInbound(ctx context.Context, owner string, e store.InboundEvent) error {
	err := s.db.Write(ctx, inbound, func(tx *Tx) error {
		n, err := tx.Q.PutInbound(tx.Ctx, query.PutInboundParams{
			State: string(e.State), Reason: e.Reason, Attempts: int64(e.Attempts), NextAt: nanos(e.NextAt), ID: e.ID, Owner: owner,
		})
		tx.Wrote = n > 0
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("record the event %s: %w", e.ID, err)
	}
	return nil
}

// ReplayInbound implements [store.Inbox].
func (s *Store) ReplayInbound(ctx context.Context, id string) error {
	now := time.Now()
	err := s.db.Write(ctx, inbound, func(tx *Tx) error {
		n, err := tx.Q.ReplayInbound(tx.Ctx, query.ReplayInboundParams{Now: nanos(now), Until: nanos(now.Add(store.HandleInboundWithin)), ID: id})
		if tx.Wrote = n > 0; err != nil || n > 0 {
			return err
		}
		if n, err = tx.Q.HasInbound(tx.Ctx, id); err == nil && n > 0 {
			return store.ErrBodyGone
		}
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("replay the event %s: %w", id, err)
	}
	return nil
}

// TrimInbound implements [store.Inbox].
func (s *Store) TrimInbound(ctx context.Context, bodies, events time.Time, maxBytes int64) error {
	rows, err := s.read.InboundBodySizes(ctx)
	if err != nil {
		return fmt.Errorf("read the sizes of events: %w", err)
	}
	before, total := nanos(bodies), int64(0)
	for _, row := range rows { // newest first
		if total += row.Size; total > maxBytes {
			before = max(before, row.ReceivedAt+1)
			break
		}
	}
	err = s.db.Write(ctx, inbound, func(tx *Tx) error {
		forgotten, err := tx.Q.ForgetInboundBodies(tx.Ctx, query.ForgetInboundBodiesParams{Empty: []byte{}, Before: before})
		if tx.Wrote = forgotten > 0; err != nil {
			return err
		}
		deleted, err := tx.Q.DeleteInbound(tx.Ctx, nanos(events))
		tx.Wrote = tx.Wrote || deleted > 0
		return err
	})
	if err != nil {
		return fmt.Errorf("delete old events: %w", err)
	}
	return nil
}
