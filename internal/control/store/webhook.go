package store

import (
	"context"
	"time"
)

// DeliverWithin is how long a delivery is retried.
const DeliverWithin = 24 * time.Hour

// DeliveryState is the state of a delivery.
type DeliveryState string

// States of deliveries.
const (
	DeliveryPending DeliveryState = "pending"
	DeliveryDone    DeliveryState = "delivered"
	DeliveryFailed  DeliveryState = "failed" // no longer retried; it can be redelivered
)

// DeliveryEvent is the kind of event that a delivery reports, as receivers see
// it.
type DeliveryEvent string

// Kinds of events.
const (
	StatusChange      DeliveryEvent = "statusChange"      // a run has ended
	ApprovalRequested DeliveryEvent = "approvalRequested" // an approval request is pending; an addition of Aloft's
)

// Delivery is one notification for an agent's webhook.
type Delivery struct {
	ID             string // derived from the agent and the event, so that a crash causes no duplicate
	Event          DeliveryEvent
	Seq            int64 // number of the journal event
	AgentID, RunID string
	CreatedAt      time.Time // when the event happened
	State          DeliveryState
	Attempts       int
	NextAt         time.Time // when a pending delivery is due
	Until          time.Time // when retries end
	LastAt         time.Time // time of the last attempt; zero if none
	LastStatus     int       // HTTP status; 0 if there was no response
	LastError      string
}

// Deliveries is the outbox of webhooks. [Journal.Append] adds a delivery in the
// same transaction as a run's end or an approval request, if the agent has a
// secret of the kind [secret.OfWebhook]. Deliveries are deleted with the agent.
// The methods are safe for concurrent use.
type Deliveries interface {
	// Deliveries returns the agent's deliveries, newest first.
	Deliveries(ctx context.Context, agentID string, p Page) ([]Delivery, error)
	// ClaimDeliveries returns at most limit due deliveries for owner to send.
	// They become due again after the given time, in case the server dies.
	ClaimDeliveries(ctx context.Context, owner string, again time.Duration, limit int) ([]Delivery, error)
	// ReleaseDeliveries makes the deliveries that owner has claimed due again.
	ReleaseDeliveries(ctx context.Context, owner string) error
	// PutAttempt records an attempt: State, Attempts, NextAt, LastAt,
	// LastStatus and LastError. It returns [ErrNotFound] if the delivery was
	// deleted.
	PutAttempt(ctx context.Context, d Delivery) error
	// Redeliver makes the agent's delivery due now, regardless of its state,
	// and restarts its period of [DeliverWithin]. The error wraps [ErrNotFound]
	// if there is no such delivery.
	Redeliver(ctx context.Context, agentID, id string) error
}
