package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Connection is a network connection that an agent's machine made or tried to
// make.
type Connection struct {
	Seq        uint64    `json:"seq"` // position in the order in which connections ended, from 1; 0 while open
	StartedAt  time.Time `json:"startedAt"`
	Network    string    `json:"network"`           // tcp, udp or dns
	Address    string    `json:"address,omitempty"` // address:port
	Domain     string    `json:"domain,omitempty"`
	Sent       int64     `json:"sentBytes"` // bytes sent by the machine
	Received   int64     `json:"receivedBytes"`
	DurationMS int64     `json:"durationMs"`
	Allowed    bool      `json:"allowed"`
	Rule       string    `json:"rule"`
	Error      string    `json:"error,omitempty"`
}

// Connections holds the connections of one agent.
type Connections struct {
	Open  []Connection `json:"open"`  // oldest first
	Ended []Connection `json:"ended"` // by Seq
}

// Connections returns the open connections of an agent's machine, and at most
// limit ended connections with numbers greater than after.
func (c *Client) Connections(ctx context.Context, agentID string, after uint64, limit int) (Connections, error) {
	q := url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(limit)}}
	var out Connections
	return out, c.call(ctx, http.MethodGet, agentPath(agentID)+"/connections?"+q.Encode(), nil, &out)
}
