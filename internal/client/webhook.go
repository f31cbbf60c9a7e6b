package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Webhook receives notifications about an agent.
type Webhook struct {
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"` // signing secret, 32 to 256 bytes
	// Events selects statusChange and approvalRequested; empty means both.
	Events []string `json:"events,omitempty"`
}

// Delivery is a delivery to an agent's webhook, sent or pending.
type Delivery struct {
	ID             string     `json:"id"`
	Event          string     `json:"event"`
	RunID          string     `json:"runId"`
	State          string     `json:"state"` // pending, delivered, failed
	Attempts       int        `json:"attempts"`
	CreatedAt      time.Time  `json:"createdAt"`
	NextAttemptAt  *time.Time `json:"nextAttemptAt,omitempty"`
	LastAttemptAt  *time.Time `json:"lastAttemptAt,omitempty"`
	LastStatusCode int        `json:"lastStatusCode,omitempty"`
	LastError      string     `json:"lastError,omitempty"`
}

// Deliveries returns the newest 100 deliveries of an agent's webhook.
func (c *Client) Deliveries(ctx context.Context, agentID string) ([]Delivery, error) {
	var out struct {
		Items []Delivery `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, agentPath(agentID)+"/webhook-deliveries", url.Values{"limit": {"100"}}, &out)
}

// ReplayDelivery sends a delivery again.
func (c *Client) ReplayDelivery(ctx context.Context, agentID, id string) error {
	return c.call(ctx, http.MethodPost, agentPath(agentID)+"/webhook-deliveries/"+segment(id)+"/replay", nil, nil)
}
