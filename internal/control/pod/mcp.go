package pod

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/mcp"
	"aloft/internal/policy/sandbox"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Bounds of what a machine says of its MCP servers, in bytes and runes.
const (
	maxListings   = 16 << 20
	maxServerWhy  = 900
	patienceOfUse = 15 * time.Second // beyond the wait that is asked for
)

// MCP has a machine run MCP servers. Its methods are safe for concurrent use.
type MCP struct {
	lost   func(error) error
	http   *http.Client
	client agentv1connect.McpServiceClient
}

// MCP returns the machine's MCP servers, for whoever has exec-daemon's token. Close
// it when done.
func (c *Conn) MCP(token string) *MCP {
	return newMCP(c.OpenExec, c.lost, withToken(token), heard{c.secrets})
}

func newMCP(dial func(context.Context) (net.Conn, error), lost func(error) error, around ...connect.Interceptor) *MCP {
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{
		Protocols: &h2c, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}
	return &MCP{lost, client, agentv1connect.NewMcpServiceClient(client, "http://exec",
		connect.WithInterceptors(around...), connect.WithReadMaxBytes(maxListings), connect.WithAcceptCompression("gzip", nil, nil))}
}

// Close lets go of the stream to exec-daemon.
func (m *MCP) Close() { m.http.CloseIdleConnections() }

// Use has the machine run those of these servers that are programs, and no others, in a sandbox where a policy
// is given, and returns what they offer, which is what the machine says: a server
// that was not asked for is not in it, and none has more than a real one may have.
// It waits for those that start as long as wait. The error wraps [ErrLost] where the
// machine is gone.
func (m *MCP) Use(ctx context.Context, servers []mcp.Server, p *sandbox.Policy, wait time.Duration) ([]mcp.Listing, error) {
	// What the others are authorized by enters no machine.
	servers = slices.DeleteFunc(slices.Clone(servers), mcp.Server.Remote)
	text, err := json.Marshal(servers)
	if err != nil {
		return nil, fmt.Errorf("run MCP servers: %w", err)
	}
	req := &agentv1.UseServersRequest{Servers: text, WaitMs: int32(wait.Milliseconds())}
	if p != nil {
		req.SandboxPolicy = encodePolicy(*p)
	}
	ctx, cancel := context.WithTimeout(ctx, wait+patienceOfUse)
	defer cancel()
	res, err := m.client.UseServers(ctx, connect.NewRequest(req))
	if err != nil {
		return nil, fmt.Errorf("run MCP servers: %w", m.lost(err))
	}
	var said []mcp.Listing
	if err := json.Unmarshal(res.Msg.GetListings(), &said); err != nil {
		return nil, fmt.Errorf("run MCP servers: the machine's answer is none: %w", err)
	}
	return admitted(servers, said), nil
}

// admitted is what may be believed of what a machine says.
func admitted(servers []mcp.Server, said []mcp.Listing) []mcp.Listing {
	var out []mcp.Listing
	for _, s := range servers {
		l := mcp.Listing{Server: s.Name, State: mcp.Failed, Error: "the machine does not say how it is"}
		for _, its := range said {
			if its.Server != s.Name {
				continue
			}
			switch its.State {
			case mcp.Ready:
				l = mcp.Admit(s, its.Instructions, its.Tools)
				if l.LeftOut == 0 && its.LeftOut > 0 {
					l.LeftOut, l.Why = its.LeftOut, mcp.Clean(its.Why, 200)
				}
			case mcp.Starting:
				l = mcp.Listing{Server: s.Name, State: mcp.Starting}
			default:
				l = mcp.Listing{Server: s.Name, State: mcp.Failed, Error: mcp.Clean(its.Error, maxServerWhy)}
			}
			break
		}
		out = append(out, l)
	}
	return out
}
