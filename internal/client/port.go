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

// DialPort connects to a TCP port in the agent's machine. Every Tunnel must be
// joined or closed.
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

// Preview is a way for a browser to what listens in a machine.
type Preview struct {
	URL       string    `json:"url"`       // for a browser that has signed in
	SignInURL string    `json:"signInUrl"` // signs it in, once
	ExpiresAt time.Time `json:"expiresAt"` // of SignInURL
}

// Preview opens a preview of a TCP port in the agent's machine.
func (c *Client) Preview(ctx context.Context, agentID string, port uint16) (Preview, error) {
	var out Preview
	return out, c.call(ctx, http.MethodPost, agentPath(agentID)+"/ports/"+strconv.Itoa(int(port))+"/preview", nil, &out)
}

// Join carries conn's bytes both ways until both have ended, and closes it.
func (t *Tunnel) Join(ctx context.Context, conn net.Conn) { tunnel.Join(ctx, t.ws, conn) }

// Close ends a tunnel that is not joined.
func (t *Tunnel) Close() error { return t.ws.CloseNow() }
