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
	SizeBytes *int64     `json:"sizeBytes,omitempty"` // nil if it was not measured in time
	CreatedAt time.Time  `json:"createdAt"`
	Published bool       `json:"published"`           // by an admin, for all members
	UsedAt    *time.Time `json:"usedAt,omitempty"`    // nil is never
	ExpiresAt *time.Time `json:"expiresAt,omitempty"` // nil is never
}

// Snapshots returns the newest 100 of the caller's snapshots, or of everybody's for
// admins. of is a saved environment or a repository URL; "" is all.
func (c *Client) Snapshots(ctx context.Context, of string) ([]SavedSnapshot, error) {
	query := url.Values{"limit": {"100"}}
	switch {
	case IsEnvironment(of):
		query.Set("environmentId", of)
	case of != "":
		query.Set("repo", of)
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

// PublishSnapshot lets the machines of all members start from a snapshot, or no
// longer. It is for admins.
func (c *Client) PublishSnapshot(ctx context.Context, id string, published bool) error {
	return c.callWith(ctx, request{method: http.MethodPatch, path: "/v1/snapshots/" + url.PathEscape(id), in: map[string]bool{"published": published}}, nil)
}
