package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// InboundEvent is an event that another service has sent to the server.
type InboundEvent struct {
	ID            string     `json:"id"`
	Source        string     `json:"source"`
	Connection    string     `json:"connection"`
	Delivery      string     `json:"delivery"`
	Kind          string     `json:"kind"`
	State         string     `json:"state"` // queued, done, ignored, failed
	Reason        string     `json:"reason,omitempty"`
	Attempts      int        `json:"attempts"`
	ReceivedAt    time.Time  `json:"receivedAt"`
	NextAttemptAt *time.Time `json:"nextAttemptAt,omitempty"`
	Size          int64      `json:"size"`
	Replayable    bool       `json:"replayable"`
}

// InboundEvents returns the newest 100 events in a state; "" means all states.
func (c *Client) InboundEvents(ctx context.Context, state string) ([]InboundEvent, error) {
	var out struct {
		Items []InboundEvent `json:"items"`
	}
	q := url.Values{"limit": {"100"}}
	if state != "" {
		q.Set("state", state)
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/events", q, &out)
}

// ReplayInboundEvent queues an event again.
func (c *Client) ReplayInboundEvent(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, "/v1/events/"+segment(id)+"/replay", nil, nil)
}
