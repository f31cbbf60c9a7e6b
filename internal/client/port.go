package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"aloft/internal/wire/tunnel"

	"github.com/coder/websocket"
)

// A Tunnel is a connection to a port in an agent's machine.
type Tunnel struct{ ws *websocket.Conn }

// DialPort connects to a TCP port in the agent's machine. The caller must call Join or
// Close on the tunnel.
func (c *Client) DialPort(ctx context.Context, agentID string, port uint16) (*Tunnel, error) {
	u, err := url.Parse(c.base.String() + agentPath(agentID) + "/ports/" + strconv.Itoa(int(port)))
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if c.key != "" {
		header.Set("Authorization", "Bearer "+c.key)
	}
	ws, reply, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{
		HTTPClient: c.http, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err == nil:
		return &Tunnel{ws}, nil
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case reply == nil:
		return nil, &UnreachableError{URL: c.base.String(), Err: unwrapURL(err)}
	case reply.StatusCode == http.StatusSwitchingProtocols:
		return nil, err
	}
	return nil, errors.Join(readError(reply), reply.Body.Close())
}

// Preview gives a browser access to a port in a machine.
type Preview struct {
	URL       string    `json:"url"`       // URL for a signed-in browser
	SignInURL string    `json:"signInUrl"` // one-time link that signs a browser in
	ExpiresAt time.Time `json:"expiresAt"` // expiry time of SignInURL
}

// Preview opens a preview of a TCP port in the agent's machine.
func (c *Client) Preview(ctx context.Context, agentID string, port uint16) (Preview, error) {
	var out Preview
	return out, c.call(ctx, http.MethodPost, agentPath(agentID)+"/ports/"+strconv.Itoa(int(port))+"/preview", nil, &out)
}

// Join copies bytes between conn and the tunnel until both directions have ended, and
// closes conn.
func (t *Tunnel) Join(ctx context.Context, conn net.Conn) { tunnel.Join(ctx, t.ws, conn) }

// Close closes a tunnel that was not joined.
func (t *Tunnel) Close() error { return t.ws.CloseNow() }
