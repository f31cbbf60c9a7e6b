package store

import (
	"context"
	"crypto/sha256"
	"time"
)

// Reply is the stored reply to a request that may be repeated.
type Reply struct {
	ID      [sha256.Size]byte // hash of the user, the operation and the idempotency key
	Request [sha256.Size]byte // hash of the request
	Sealed  []byte            // the reply, encrypted with the caller's idempotency key
	At      time.Time
}

// Replies stores replies for a limited time. Its methods are safe for
// concurrent use.
type Replies interface {
	// Reply returns the reply with the given id. The error wraps [ErrNotFound]
	// if it does not exist.
	Reply(ctx context.Context, id [sha256.Size]byte) (Reply, error)
	// KeepReply stores a reply, replacing one with the same id.
	KeepReply(ctx context.Context, r Reply) error
	// ForgetReplies deletes the replies that were stored before the given time,
	// and returns their number.
	ForgetReplies(ctx context.Context, before time.Time) (int64, error)
}
