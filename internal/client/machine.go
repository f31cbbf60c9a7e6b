package client

import (
	"context"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// Pause lets an agent wait before its next step.
func (c *Client) Pause(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, agentPath(id)+"/pause", nil, nil)
}

// Resume lets an agent that waits go on.
func (c *Client) Resume(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, agentPath(id)+"/resume", nil, nil)
}

// OpenSSH connects to the ssh server of an agent's machine. life names the
// machine and its present life: another life has another host key. The
// connection ends with ctx.
func (c *Client) OpenSSH(ctx context.Context, id string) (conn net.Conn, life string, err error) {
	// The scheme http stands for ws, and https for wss.
	//nolint:bodyclose // after a failure it is in memory, and after success it is the connection
	ws, reply, err := websocket.Dial(ctx, c.base.String()+agentPath(id)+"/ssh", &websocket.DialOptions{
		HTTPClient: c.http, HTTPHeader: http.Header{"Authorization": {"Bearer " + c.key}}, CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err == nil:
	case context.Cause(ctx) != nil:
		return nil, "", context.Cause(ctx)
	case reply != nil && reply.StatusCode >= http.StatusMultipleChoices:
		return nil, "", readError(reply)
	default:
		return nil, "", &UnreachableError{URL: c.base.String(), Err: unwrapURL(err)}
	}
	ws.SetReadLimit(-1)
	return websocket.NetConn(ctx, ws, websocket.MessageBinary), reply.Header.Get("Aloft-Machine"), nil
}

// Desktop says whether an agent's machine has one.
type Desktop struct {
	Running  bool   `json:"running"`
	Protocol string `json:"protocol,omitempty"` // the version of RFB
	Reason   string `json:"reason,omitempty"`   // why it is not running
	Hint     string `json:"hint,omitempty"`     // what to do then
}

// Desktop asks an agent's machine for its desktop.
func (c *Client) Desktop(ctx context.Context, agentID string) (Desktop, error) {
	var out Desktop
	return out, c.call(ctx, http.MethodGet, agentPath(agentID)+"/desktop", nil, &out)
}

// Terminal is one that an agent and people share.
type Terminal struct {
	Name             string `json:"name"`
	CreatedAt        string `json:"createdAt"`
	Attached         int    `json:"attached"` // how many look at it
	Columns          int    `json:"columns"`
	Rows             int    `json:"rows"`
	Command          string `json:"command"` // what runs in front
	WorkingDirectory string `json:"workingDirectory"`
	ExitCode         *int   `json:"exitCode,omitempty"` // of a command that has ended
}

// Terminals returns those of an agent's machine.
func (c *Client) Terminals(ctx context.Context, agentID string) ([]Terminal, error) {
	var out struct {
		Items []Terminal `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, agentPath(agentID)+"/terminals", nil, &out)
}
