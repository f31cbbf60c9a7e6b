package store

import (
	"context"
	"time"
)

// DeliverWithin is how long a delivery is tried.
const DeliverWithin = 24 * time.Hour

// DeliveryState is how far a delivery has come.
type DeliveryState string

// States of deliveries.
const (
	DeliveryPending DeliveryState = "pending"
	DeliveryDone    DeliveryState = "delivered"
	DeliveryFailed  DeliveryState = "failed" // given up; it can be replayed
)

// DeliveryEvent is what a delivery tells, as its receiver reads it.
type DeliveryEvent string

// What is told.
const (
	StatusChange      DeliveryEvent = "statusChange"      // a run has ended
	ApprovalRequested DeliveryEvent = "approvalRequested" // a question waits for a person; an addition of Aloft's
)

// Delivery is one thing that an agent's webhook is to be told.
type Delivery struct {
	ID             string // made of the agent and what is told, so that no crash makes a second
	Event          DeliveryEvent
	Seq            int64 // of the event of the journal that says it
	AgentID, RunID string
	CreatedAt      time.Time // when it happened
	State          DeliveryState
	Attempts       int
	NextAt         time.Time // when a pending one is due
	Until          time.Time // when it is given up
	LastAt         time.Time // of the last attempt; zero for none
	LastStatus     int       // of HTTP; 0 where there was no answer
	LastError      string
}

// Deliveries is the outbox of webhooks. A delivery is made by the
// [Journal.Append] of a run's end or of an approval that is asked for, in the
// same transaction, where the agent has a secret of the kind [secret.OfWebhook];
// it goes with the agent. The methods
// are safe for concurrent use.
type Deliveries interface {
	// Deliveries returns the agent's, newest first.
	Deliveries(ctx context.Context, agentID string, p Page) ([]Delivery, error)
	// ClaimDeliveries returns at most limit that are due, for owner to send. They
	// are due again after the time, for a server that dies records nothing.
	ClaimDeliveries(ctx context.Context, owner string, again time.Duration, limit int) ([]Delivery, error)
	// ReleaseDeliveries makes due what owner has claimed.
	ReleaseDeliveries(ctx context.Context, owner string) error
	// PutAttempt records an attempt: State, Attempts, NextAt, LastAt, LastStatus
	// and LastError. One that is gone is [ErrNotFound].
	PutAttempt(ctx context.Context, d Delivery) error
	// Redeliver makes the agent's delivery due now, whatever its state, and gives
	// it [DeliverWithin] again. The error wraps [ErrNotFound] if there is none.
	Redeliver(ctx context.Context, agentID, id string) error
}
