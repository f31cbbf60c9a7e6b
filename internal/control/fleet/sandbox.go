package fleet

import (
	"cmp"
	"context"

	"aloft/internal/agent"
	"aloft/internal/policy/sandbox"
)

// The processes other than tool calls that can run in a sandbox.
const (
	// SandboxGit means the project's git hooks when the server commits or
	// pushes. They run in the sandbox whenever the run mode sandboxes commands.
	SandboxGit       = "git"
	SandboxHooks     = "hooks"
	SandboxStart     = "start"
	SandboxTerminals = "terminals"
	SandboxMCP       = "mcp" // MCP servers over stdio
)

// Sandboxable lists the processes that the operator can put in the sandbox.
var Sandboxable = []string{SandboxHooks, SandboxStart, SandboxTerminals, SandboxMCP}

// sandboxPolicy returns the sandbox policy for one kind of an agent's
// Sandboxable processes; nil means no sandbox.
func (f *Fleet) sandboxPolicy(ctx context.Context, a agent.Agent, what string) (*sandbox.Policy, error) {
	if f.SandboxPolicy == nil {
		return nil, nil //nolint:nilnil // no sandbox
	}
	return f.SandboxPolicy(ctx, a, what)
}

// gitSandbox returns the sandbox policy for the hooks of an agent's repositories;
// nil means no sandbox.
func (f *Fleet) gitSandbox(ctx context.Context, a agent.Agent) (*sandbox.Policy, error) {
	if f.Sandbox == nil || !f.Sandbox(cmp.Or(a.Class, f.Class)) {
		return nil, nil //nolint:nilnil // no sandbox
	}
	return f.sandboxPolicy(ctx, a, SandboxGit)
}
