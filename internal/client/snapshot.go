package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// SavedSnapshot is the saved disk of a machine.
type SavedSnapshot struct {
	ID        string     `json:"id"`
	UserID    int64      `json:"userId"`
	AgentID   string     `json:"agentId"`
	Repo      string     `json:"repo"`
	SizeBytes *int64     `json:"sizeBytes,omitempty"` // nil if the size was not measured in time
	CreatedAt time.Time  `json:"createdAt"`
	Published bool       `json:"published"`           // whether an admin has published it for all members
	UsedAt    *time.Time `json:"usedAt,omitempty"`    // nil means never
	ExpiresAt *time.Time `json:"expiresAt,omitempty"` // nil means never
}

// Snapshots returns the newest 100 of the caller's snapshots, or of everybody's
// for admins. source is a saved environment or a repository URL; "" means all.
func (c *Client) Snapshots(ctx context.Context, source string) ([]SavedSnapshot, error) {
	query := url.Values{"limit": {"100"}}
	switch {
	case IsEnvironment(source):
		query.Set("environmentId", source)
	case source != "":
		query.Set("repo", source)
	}
	var out struct {
		Items []SavedSnapshot `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/snapshots", query, &out)
}

// DeleteSnapshot deletes a snapshot. Machines that started from it are not affected.
func (c *Client) DeleteSnapshot(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/snapshots/"+url.PathEscape(id), nil, nil)
}

// PublishSnapshot allows or forbids the machines of all members to start from a
// snapshot. Only admins may call it.
func (c *Client) PublishSnapshot(ctx context.Context, id string, published bool) error {
	return c.callWith(ctx, request{method: http.MethodPatch, path: "/v1/snapshots/" + url.PathEscape(id), in: map[string]bool{"published": published}}, nil)
}
