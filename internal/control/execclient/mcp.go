package execclient

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/control/machinerpc"
	"aloft/internal/mcp"
	"aloft/internal/policy/sandbox"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Limits for a machine's replies about its MCP servers, in bytes and runes.
const (
	maxListings   = 16 << 20
	maxServerWhy  = 900
	maxToolsTold  = 20_000
	depthOfTools  = 3                // arrays and objects around a tool in the reply
	patienceOfUse = 15 * time.Second // added to the requested wait
)

// MCP runs MCP servers in a machine. Its methods are safe for concurrent use.
type MCP struct {
	client[agentv1connect.McpServiceClient]
}

// NewMCP returns the machine's MCP servers. token is exec-daemon's. The caller
// must call Close.
func NewMCP(conn Conn, token string) *MCP {
	return &MCP{newClient(conn, token, maxListings, agentv1connect.NewMcpServiceClient)}
}

// Use makes the machine run exactly the stdio servers of the given list, in a
// sandbox if p is not nil, and returns their listings. It checks the listings,
// because they come from the machine: it drops servers that were not requested,
// and enforces limits. For servers that are starting, it waits at most for the
// duration wait. The error wraps [pod.ErrLost] if the machine is gone.
func (m *MCP) Use(ctx context.Context, servers []mcp.Server, p *sandbox.Policy, wait time.Duration) ([]mcp.Listing, error) {
	// Credentials of remote servers must not be sent to the machine.
	servers = slices.DeleteFunc(slices.Clone(servers), mcp.Server.Remote)
	text, err := json.Marshal(servers)
	if err != nil {
		return nil, fmt.Errorf("run MCP servers: %w", err)
	}
	req := &agentv1.UseServersRequest{Servers: text, WaitMs: int32(wait.Milliseconds())}
	if p != nil {
		req.SandboxPolicy = machinerpc.EncodePolicy(*p)
	}
	ctx, cancel := context.WithTimeout(ctx, wait+patienceOfUse)
	defer cancel()
	res, err := m.service.UseServers(ctx, connect.NewRequest(req))
	if err != nil {
		return nil, fmt.Errorf("run MCP servers: %w", m.conn.Lost(err))
	}
	if commas(res.Msg.GetListings(), depthOfTools) > maxToolsTold {
		return nil, fmt.Errorf("run MCP servers: the machine listed more than %d tools", maxToolsTold)
	}
	var said []mcp.Listing
	if err := json.Unmarshal(res.Msg.GetListings(), &said); err != nil {
		return nil, fmt.Errorf("run MCP servers: invalid reply of the machine: %w", err)
	}
	return admitted(servers, said), nil
}

// commas counts the commas of a JSON text that are nested in at most depth
// arrays and objects. Their number bounds the elements that decoding creates.
func commas(text []byte, depth int) (n int) {
	at, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			at++
		case c == ']' || c == '}':
			at--
		case c == ',' && at <= depth:
			n++
		}
	}
	return n
}

// admitted returns the acceptable part of a machine's report.
func admitted(servers []mcp.Server, said []mcp.Listing) []mcp.Listing {
	var out []mcp.Listing
	for _, s := range servers {
		l := mcp.Listing{Server: s.Name, State: mcp.Failed, Error: "the machine did not report its state"}
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
