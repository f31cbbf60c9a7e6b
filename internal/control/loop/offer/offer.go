// Package offer knows which MCP servers a run can use and what they offer, and
// calls the remote servers. The machine calls its own servers, like any tool.
package offer

import (
	"context"
	"encoding/json"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/mcp"
	"aloft/internal/tool"
)

// Servers provides the MCP servers of agents: the names of all servers, and
// access to the remote ones, which the control plane calls itself. Responses of
// MCP servers are untrusted, so implementations must bound them; listings must
// come from [mcp.Admit]. Methods are safe for concurrent use, respect ctx, and
// have their own timeouts. Errors are faults whose messages users and the model
// may read.
type Servers interface {
	// ServersOf returns the servers that the agent can use in its open run, merged
	// from all sources by [mcp.Merge], and those that it cannot use. The project's
	// file is read from the commit State.Agent.RulesAt of the default branch.
	// Variables of stdio servers are not expanded; the machine does that.
	ServersOf(ctx context.Context, s *agent.State) ([]mcp.Server, []mcp.LeftOut, error)
	// List returns the tools and resources of a remote server. A server that
	// cannot be used is not an error: the listing's State and Error say why.
	List(ctx context.Context, s *agent.State, server mcp.Server) (mcp.Listing, error)
	// Call calls a tool of a remote server. The loop has already checked the
	// call: the server is one that ServersOf returned, its listing has the tool, and
	// policy allows the call.
	Call(ctx context.Context, s *agent.State, server mcp.Server, tool string, args json.RawMessage) (mcp.Result, error)
	// Resources lists the resources of a remote server, at most
	// [mcp.MaxResources].
	Resources(ctx context.Context, s *agent.State, server mcp.Server) ([]mcp.Resource, error)
	// Read reads a resource.
	Read(ctx context.Context, s *agent.State, server mcp.Server, uri string) ([]mcp.Content, error)
	// SignIn returns the URL at which a person signs in to a remote server, or
	// "" if no sign-in is needed.
	SignIn(ctx context.Context, s *agent.State, server mcp.Server) (string, error)
}

// Machine runs the servers that work in the machine.
type Machine interface {
	Servers(ctx context.Context, s *agent.State, servers []mcp.Server, wait time.Duration) ([]mcp.Listing, error)
}

// Writer runs the call that writes a file in the machine.
type Writer interface {
	Call(ctx context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, time.Duration, error)
	Ack(ctx context.Context, callID string) error
}
