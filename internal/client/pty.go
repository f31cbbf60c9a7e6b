package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// maxPTYMessage is the largest message of a PTY, in bytes.
const maxPTYMessage = 1 << 20

// Channels of a PTY's binary messages: the first byte of each.
const (
	PTYInput = 0
	PTYError = 2
)

// PTY is a connection to the PTYs of an agent's machine, in the protocol of
// docs/reference/pty.md. Read and Send may be called concurrently.
type PTY struct{ ws *websocket.Conn }

// PTYRequest is a message to the machine. Type determines which fields are used.
type PTYRequest struct {
	Type     string            `json:"type"`
	ID       string            `json:"id,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"dir,omitempty"`
	Columns  int               `json:"columns,omitempty"`
	Rows     int               `json:"rows,omitempty"`
	TTY      *bool             `json:"tty,omitempty"`
	ReadOnly bool              `json:"readOnly,omitempty"`
	Terminal string            `json:"terminal,omitempty"`
	Signal   string            `json:"signal,omitempty"`
}

// PTYEvent is a message from the machine: either Data on a Channel, or a message that
// Type describes.
type PTYEvent struct {
	Channel int // channel of Data
	Data    []byte

	Type    string `json:"type"`
	ID      string `json:"id"`
	Offset  int64  `json:"offset"`
	Code    int    `json:"code"`
	Signal  string `json:"signal"`
	Error   string `json:"error"`
	Message string `json:"message"`
}

// OpenPTY connects to the PTYs of an agent's machine. The connection outlives ctx.
func (c *Client) OpenPTY(ctx context.Context, agentID string) (*PTY, error) {
	return c.openPTY(ctx, "agents", agentID)
}

// OpenBuildPTY connects to the PTYs of the machine of a failed build. The connection
// outlives ctx.
func (c *Client) OpenBuildPTY(ctx context.Context, buildID string) (*PTY, error) {
	return c.openPTY(ctx, "builds", buildID)
}

func (c *Client) openPTY(ctx context.Context, of, id string) (*PTY, error) {
	u := *c.base
	target := u.JoinPath("v1", of, segment(id), "pty")
	// Use a separate transport, because WebSocket requires HTTP/1.1 and the
	// client's other transport may negotiate HTTP/2.
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ResponseHeaderTimeout: 3 * time.Minute, // a machine may have to start
	}
	ws, res, err := websocket.Dial(ctx, target.String(), &websocket.DialOptions{
		HTTPClient:      &http.Client{Transport: transport, CheckRedirect: c.http.CheckRedirect},
		HTTPHeader:      http.Header{"Authorization": {"Bearer " + c.key}},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		if res != nil && res.StatusCode >= 300 {
			defer res.Body.Close()
			return nil, readError(res)
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, &UnreachableError{URL: c.base.String(), Err: unwrapURL(err)}
	}
	ws.SetReadLimit(maxPTYMessage)
	return &PTY{ws}, nil
}

// Ask sends a request.
func (p *PTY) Ask(ctx context.Context, r PTYRequest) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return p.ws.Write(ctx, websocket.MessageText, b)
}

// Type sends keyboard input.
func (p *PTY) Type(ctx context.Context, b []byte) error {
	return p.ws.Write(ctx, websocket.MessageBinary, append([]byte{PTYInput}, b...))
}

// Next waits for a message from the machine.
func (p *PTY) Next(ctx context.Context) (PTYEvent, error) {
	kind, b, err := p.ws.Read(ctx)
	if err != nil {
		return PTYEvent{}, err
	}
	return readPTYEvent(kind == websocket.MessageBinary, b)
}

// readPTYEvent decodes a message. The message comes from a machine and is
// untrusted.
func readPTYEvent(binary bool, b []byte) (e PTYEvent, err error) {
	if binary {
		if len(b) == 0 {
			return e, nil
		}
		return PTYEvent{Channel: int(b[0]), Data: b[1:]}, nil
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return PTYEvent{}, fmt.Errorf("invalid PTY message from the machine: %w", err)
	}
	e.Channel, e.Data = 0, nil
	return e, nil
}

// Close closes the connection.
func (p *PTY) Close() error { return p.ws.CloseNow() }
