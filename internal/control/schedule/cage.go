package schedule

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/policy/cage"
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

// cage is the policy around something of an agent's; nil is none.
func (s *Scheduler) cage(ctx context.Context, a agent.Agent, what string) (*cage.Policy, error) {
	if s.Cage == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	return s.Cage(ctx, a, what)
}
