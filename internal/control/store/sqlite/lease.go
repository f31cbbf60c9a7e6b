package sqlite

import (
	"context"
	"fmt"
	"time"

	"aloft/internal/control/store/sqlite/query"
)

// Acquire implements [store.Leases].
func (s *Store) Acquire(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	var got bool
	err := s.write(ctx, func(tx *tx) error {
		l, err := tx.lease(name)
		if err != nil {
			return err
		}
		now := time.Now()
		got = l.Owner == "" || l.Owner == owner || l.Until <= now.UnixNano()
		if !got {
			return nil
		}
		tx.wrote = true
		l = query.Lease{Name: name, Owner: owner, Until: now.Add(ttl).UnixNano()}
		tx.keepLease(l)
		return tx.q.PutLease(tx.ctx, query.PutLeaseParams(l))
	})
	if err != nil {
		return false, fmt.Errorf("take lease %s: %w", name, err)
	}
	return got, nil
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, name, owner string) error {
	err := s.write(ctx, func(tx *tx) error {
		l, err := tx.lease(name)
		if err != nil || l.Owner != owner {
			return err
		}
		tx.wrote = true
		tx.keepLease(query.Lease{Name: name})
		return tx.q.DeleteLease(tx.ctx, name)
	})
	if err != nil {
		return fmt.Errorf("give up lease %s: %w", name, err)
	}
	return nil
}
