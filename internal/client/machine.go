package client

import (
	"context"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// Pause pauses an agent before its next step.
func (c *Client) Pause(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, agentPath(id)+"/pause", nil, nil)
}

// Rename gives an agent another name.
func (c *Client) Rename(ctx context.Context, id, name string) error {
	return c.callWith(ctx, request{method: http.MethodPatch, path: agentPath(id), in: map[string]string{"name": name}}, nil)
}

// Resume resumes a paused agent.
func (c *Client) Resume(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, agentPath(id)+"/resume", nil, nil)
}

// OpenSSH connects to the SSH server of an agent's machine. life identifies the machine
// and its boot: each boot has a new host key. The connection ends when ctx is done.
func (c *Client) OpenSSH(ctx context.Context, id string) (conn net.Conn, life string, err error) {
	// The dialer treats the scheme http as ws and https as wss.
	//nolint:bodyclose // the dialer buffers it after a failure; after a success it is the connection
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

// Desktop describes the desktop of an agent's machine.
type Desktop struct {
	Running  bool   `json:"running"`
	Protocol string `json:"protocol,omitempty"` // RFB version
	Reason   string `json:"reason,omitempty"`   // why the desktop is not running
	Hint     string `json:"hint,omitempty"`     // how to fix the problem
}

// Desktop starts the desktop of an agent's machine if needed, and describes it.
func (c *Client) Desktop(ctx context.Context, agentID string) (Desktop, error) {
	var out Desktop
	return out, c.call(ctx, http.MethodGet, agentPath(agentID)+"/desktop", nil, &out)
}

// ListeningPort is a port on which a program in an agent's machine listens.
type ListeningPort struct {
	Port    int    `json:"port"`
	Program string `json:"program"` // name of the process; "" if unknown
}

// Ports returns the ports on which programs in an agent's machine listen.
func (c *Client) Ports(ctx context.Context, agentID string) ([]ListeningPort, error) {
	var out struct {
		Items []ListeningPort `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, agentPath(agentID)+"/ports", nil, &out)
}

// Terminal is a terminal that an agent shares with people.
type Terminal struct {
	Name             string `json:"name"`
	CreatedAt        string `json:"createdAt"`
	Attached         int    `json:"attached"` // number of attached clients
	Columns          int    `json:"columns"`
	Rows             int    `json:"rows"`
	Command          string `json:"command"` // foreground command
	WorkingDirectory string `json:"workingDirectory"`
	ExitCode         *int   `json:"exitCode,omitempty"` // exit code of a command that has exited
}

// Terminals returns the shared terminals of an agent's machine.
func (c *Client) Terminals(ctx context.Context, agentID string) ([]Terminal, error) {
	var out struct {
		Items []Terminal `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, agentPath(agentID)+"/terminals", nil, &out)
}
