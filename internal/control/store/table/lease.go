package table

import (
	"context"
	"fmt"
	"time"

	"aloft/internal/control/store/table/query"
)

// Acquire implements [store.Leases].
func (s *Store) Acquire(ctx context.Context, name, owner string, ttl time.Duration) (bool, error) {
	var got bool
	err := s.db.Write(ctx, name, func(tx *Tx) error {
		l, err := tx.lease(name)
		if err != nil {
			return err
		}
		now, err := tx.now()
		if err != nil {
			return err
		}
		got = l.Owner == "" || l.Owner == owner || l.Until <= now.UnixNano()
		if !got {
			return nil
		}
		tx.Wrote = true
		l = query.Lease{Name: name, Owner: owner, Until: now.Add(ttl).UnixNano()}
		tx.keepLease(l)
		return tx.Q.PutLease(tx.Ctx, query.PutLeaseParams(l))
	})
	if err != nil {
		return false, fmt.Errorf("take lease %s: %w", name, err)
	}
	return got, nil
}

// Release implements [store.Leases].
func (s *Store) Release(ctx context.Context, name, owner string) error {
	err := s.db.Write(ctx, name, func(tx *Tx) error {
		l, err := tx.lease(name)
		if err != nil || l.Owner != owner {
			return err
		}
		tx.Wrote = true
		tx.keepLease(query.Lease{Name: name})
		return tx.Q.DeleteLease(tx.Ctx, name)
	})
	if err != nil {
		return fmt.Errorf("give up lease %s: %w", name, err)
	}
	return nil
}
