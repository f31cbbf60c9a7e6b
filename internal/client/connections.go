package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Connection is one that an agent's machine made, or was refused.
type Connection struct {
	Seq        uint64    `json:"seq"` // in the order of their ends, from 1; 0 while it is open
	StartedAt  time.Time `json:"startedAt"`
	Network    string    `json:"network"`           // tcp, udp or dns
	Address    string    `json:"address,omitempty"` // address:port
	Domain     string    `json:"domain,omitempty"`
	Sent       int64     `json:"sentBytes"` // from inside
	Received   int64     `json:"receivedBytes"`
	DurationMS int64     `json:"durationMs"`
	Allowed    bool      `json:"allowed"`
	Rule       string    `json:"rule"`
	Error      string    `json:"error,omitempty"`
}

// Connections are those of one agent.
type Connections struct {
	Open  []Connection `json:"open"`  // the oldest first
	Ended []Connection `json:"ended"` // by Seq
}

// Connections returns what an agent's machine has open, and the page of at most
// limit that ended after the numbered one.
func (c *Client) Connections(ctx context.Context, agentID string, after uint64, limit int) (Connections, error) {
	q := url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(limit)}}
	var out Connections
	return out, c.call(ctx, http.MethodGet, agentPath(agentID)+"/connections?"+q.Encode(), nil, &out)
}
