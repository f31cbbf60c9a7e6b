package store

import (
	"context"
	"crypto/sha256"
	"time"
)

// Reply is what is kept of the reply to a request that may be repeated.
type Reply struct {
	ID      [sha256.Size]byte // of the user, the operation and the caller's key for it
	Request [sha256.Size]byte // of what was asked
	Sealed  []byte            // the reply, which only who knows the key can read
	At      time.Time
}

// Replies keeps replies for a while. Its methods are safe for concurrent use.
type Replies interface {
	// Reply returns the reply of that id; the error wraps [ErrNotFound] if none is kept.
	Reply(ctx context.Context, id [sha256.Size]byte) (Reply, error)
	// KeepReply keeps it, in place of another of its id.
	KeepReply(ctx context.Context, r Reply) error
	// ForgetReplies removes those that are older, and says how many.
	ForgetReplies(ctx context.Context, before time.Time) (int64, error)
}
