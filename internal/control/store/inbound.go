package store

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Limits of inbound events.
const (
	HandleInboundWithin = 24 * time.Hour     // how long a queued event is retried
	KeepInboundBodies   = 24 * time.Hour     // how long the body of a handled event is kept
	KeepInbound         = 7 * 24 * time.Hour // how long an event is listed, and its repetition recognized
)

// InboundState is the state of an inbound event.
type InboundState string

// States of inbound events.
const (
	InboundQueued  InboundState = "queued"
	InboundDone    InboundState = "done"
	InboundIgnored InboundState = "ignored" // there was nothing to do; Reason says why
	InboundFailed  InboundState = "failed"  // no longer retried; it can be replayed
)

// InboundStates lists all states.
var InboundStates = []InboundState{InboundQueued, InboundDone, InboundIgnored, InboundFailed}

// InboundEvent is one delivery of another service's webhook to this server.
type InboundEvent struct {
	ID         string // see [InboundID]
	Source     string // kind of the sender, such as github
	Connection string // name of the connection in the configuration
	Delivery   string // the sender's id of the delivery
	Kind       string // the sender's name of the event
	ReceivedAt time.Time
	Size       int64  // bytes of the body as received
	Body       []byte // nil in lists
	Kept       bool   // whether the body is still stored, so that the event can be replayed
	State      InboundState
	Reason     string // why it was ignored, or the last error
	Attempts   int
	NextAt     time.Time // when a queued event is due
	Until      time.Time // when retries end
}

// InboundID derives the id of an event from its source, connection and
// delivery, so that a repeated delivery has the same id.
func InboundID(source, connection, delivery string) string {
	return "evt-" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(source+"\x00"+connection+"\x00"+delivery)).String()
}

// Inbox stores inbound events. Its methods are safe for concurrent use.
type Inbox interface {
	// AddInbound stores a queued event. It returns false if the event is
	// already stored.
	AddInbound(ctx context.Context, e InboundEvent) (added bool, err error)
	// QueuedInbound returns how many events are queued.
	QueuedInbound(ctx context.Context) (int, error)
	// Inbound returns events without bodies, newest first. An empty state means
	// all states.
	Inbound(ctx context.Context, state InboundState, p Page) ([]InboundEvent, error)
	// InboundEvent returns an event with its body, if the body is still stored.
	// The error wraps [ErrNotFound] if there is no such event.
	InboundEvent(ctx context.Context, id string) (InboundEvent, error)
	// ClaimInbound returns at most limit due events for owner to handle. They
	// become due again after the given time, in case the server dies.
	ClaimInbound(ctx context.Context, owner string, again time.Duration, limit int) ([]InboundEvent, error)
	// ReleaseInbound makes the events that owner has claimed due again.
	ReleaseInbound(ctx context.Context, owner string) error
	// PutInbound records an attempt: State, Reason, Attempts and NextAt. It
	// returns [ErrNotFound] if owner's claim has ended.
	PutInbound(ctx context.Context, owner string, e InboundEvent) error
	// ReplayInbound queues an event again. The error wraps [ErrNotFound] if there
	// is no such event, and [ErrBodyGone] if its body is no longer stored.
	ReplayInbound(ctx context.Context, id string) error
	// TrimInbound deletes the bodies of handled events received before bodies,
	// the oldest bodies of handled events beyond maxBytes, and handled events
	// received before events.
	TrimInbound(ctx context.Context, bodies, events time.Time, maxBytes int64) error
}
