package loop

import (
	"context"
	"encoding/json"

	"aloft/internal/agent"
	"aloft/internal/mcp"
)

// Servers are the MCP servers of agents: all of them by name, and those that the
// control plane speaks with itself. What a server says is foreign, and bounded by
// whoever implements this: a listing is one that [mcp.Admit] made. Its methods are
// safe for concurrent use, heed ctx, and have time limits of their own; an error
// is a fault, whose words a person and the model may read.
type Servers interface {
	// Of returns the servers that the agent gets in its open run, as [mcp.Merge]
	// made them of all sources (the project's file as its default branch had it when
	// the agent began: State.Agent.RulesAt), and those that it does not get. Variables
	// of stdio servers stay as they are: the machine replaces them.
	Of(ctx context.Context, s *agent.State) ([]mcp.Server, []mcp.LeftOut, error)
	// List says what a remote server offers. One that cannot be used is no error: its
	// State and Error say why.
	List(ctx context.Context, s *agent.State, server mcp.Server) (mcp.Listing, error)
	// Call calls a tool of a remote server. The loop has seen to it that the call is
	// admitted: the server is one of Of, its listing has the tool, policy allows it.
	Call(ctx context.Context, s *agent.State, server mcp.Server, tool string, args json.RawMessage) (mcp.Result, error)
	// Resources lists what a remote server has to read, at most [mcp.MaxResources].
	Resources(ctx context.Context, s *agent.State, server mcp.Server) ([]mcp.Resource, error)
	// Read reads one of them.
	Read(ctx context.Context, s *agent.State, server mcp.Server, uri string) ([]mcp.Content, error)
	// SignIn returns where a person signs in to a remote server; "" where nobody has to.
	SignIn(ctx context.Context, s *agent.State, server mcp.Server) (string, error)
}
