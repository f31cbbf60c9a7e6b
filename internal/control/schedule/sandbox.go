package schedule

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/policy/sandbox"
)

// What may have a sandbox around it beside tool calls.
const (
	SandboxHooks     = "hooks"
	SandboxStart     = "start"
	SandboxTerminals = "terminals"
	SandboxMCP       = "mcp" // stdio servers
)

// Sandboxable are all of them.
var Sandboxable = []string{SandboxHooks, SandboxStart, SandboxTerminals, SandboxMCP}

// sandboxPolicy is the policy around something of an agent's; nil is none.
func (s *Scheduler) sandboxPolicy(ctx context.Context, a agent.Agent, what string) (*sandbox.Policy, error) {
	if s.SandboxPolicy == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	return s.SandboxPolicy(ctx, a, what)
}
