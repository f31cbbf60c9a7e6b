package schedule

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/policy/sandbox"
)

// Things besides tool calls that can run in a sandbox.
const (
	SandboxHooks     = "hooks"
	SandboxStart     = "start"
	SandboxTerminals = "terminals"
	SandboxMCP       = "mcp" // MCP servers over stdio
)

// Sandboxable lists all of them.
var Sandboxable = []string{SandboxHooks, SandboxStart, SandboxTerminals, SandboxMCP}

// sandboxPolicy returns the sandbox policy for one of an agent's Sandboxable things; nil
// means no sandbox.
func (s *Scheduler) sandboxPolicy(ctx context.Context, a agent.Agent, what string) (*sandbox.Policy, error) {
	if s.SandboxPolicy == nil {
		return nil, nil //nolint:nilnil // no sandbox
	}
	return s.SandboxPolicy(ctx, a, what)
}
