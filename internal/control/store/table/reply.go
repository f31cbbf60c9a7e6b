package table

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
)

// Reply implements [store.Replies].
func (s *Store) Reply(ctx context.Context, id [sha256.Size]byte) (store.Reply, error) {
	row, err := s.read.GetReply(ctx, id[:])
	if err != nil {
		return store.Reply{}, fmt.Errorf("read a reply: %w", readError(err))
	}
	r := store.Reply{ID: id, Sealed: row.Sealed, At: stamp(row.At)}
	copy(r.Request[:], row.Request)
	return r, nil
}

// KeepReply implements [store.Replies].
func (s *Store) KeepReply(ctx context.Context, r store.Reply) error {
	err := s.db.Write(ctx, alone, func(tx *Tx) error {
		tx.Wrote = true
		return tx.Q.PutReply(tx.Ctx, query.PutReplyParams{ID: r.ID[:], Request: r.Request[:], Sealed: r.Sealed, At: nanos(r.At)})
	})
	if err != nil {
		return fmt.Errorf("keep a reply: %w", err)
	}
	return nil
}

// ForgetReplies implements [store.Replies].
func (s *Store) ForgetReplies(ctx context.Context, before time.Time) (n int64, err error) {
	err = s.db.Write(ctx, alone, func(tx *Tx) error {
		tx.Wrote = true
		n, err = tx.Q.DeleteReplies(tx.Ctx, nanos(before))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget replies: %w", err)
	}
	return n, nil
}
