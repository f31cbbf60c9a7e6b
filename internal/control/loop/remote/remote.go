// Package remote describes an agent's machine as the loop uses it: the
// interface Machine, and the types of its arguments and results. It contains no
// behavior.
package remote

import (
	"context"
	"errors"
	"time"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/hook"
	"aloft/internal/mcp"
	"aloft/internal/policy/sandbox"
	"aloft/internal/rule"
	"aloft/internal/subagent"
	"aloft/internal/tool"
)

// ErrLost is wrapped by errors of [Machine] if the machine is gone. The
// loop then asks for the machine again.
var ErrLost = errors.New("machine lost")

// ErrHooked is wrapped by the error of a call that was sent without having run
// hooks. The [Machine] did not start the call, because it has hooks.
var ErrHooked = errors.New("the machine has hooks")

// Machine is the part of an agent's machine that a loop uses. Its methods are
// safe for concurrent use.
type Machine interface {
	// BootID identifies the current boot of the machine.
	BootID() string
	// Call runs a tool call, or attaches to the call if the machine knows its
	// id. onDelta receives the output in order. When ctx ends, the call is
	// aborted. It returns [ErrHooked] if the call is marked as unhooked but the
	// machine has hooks.
	Call(ctx context.Context, c conversation.ToolCall, onDelta func(Delta)) (tool.Result, time.Duration, error)
	// CallSandboxed is like Call, but runs the call in the machine's sandbox
	// with the given policy. A call with a Guard runs in the sandbox only if
	// the guard's checks fail.
	CallSandboxed(ctx context.Context, c conversation.ToolCall, p sandbox.Policy, onDelta func(Delta)) (tool.Result, time.Duration, error)
	// Attach waits for a call that the machine knows, like Call, but never
	// starts one: started is false if the machine does not know the id. If ctx
	// has already ended, the call is aborted.
	Attach(ctx context.Context, callID string, onDelta func(Delta)) (r tool.Result, took time.Duration, started bool, err error)
	// Known returns the ids of the calls that, at the time of connecting, the
	// machine had received and whose results were not acknowledged.
	Known() []string
	// Drop aborts a call if it is running, and makes the machine forget it.
	Drop(ctx context.Context, callID string) error
	// Enforced reports whether the machine's sandbox can enforce its policy.
	Enforced() bool
	// Lacking returns the names of the tools that cannot work in the machine.
	Lacking() []string
	// Servers makes the machine run exactly the stdio servers among the given
	// servers, and returns their listings. It waits up to the given time for
	// servers that are starting.
	Servers(ctx context.Context, s *agent.State, servers []mcp.Server, wait time.Duration) ([]mcp.Listing, error)
	// Unhooked reports whether calls may be sent as unhooked: neither the team
	// nor the agent's owner has hooks, and the machine itself checks whether it
	// has hooks.
	Unhooked(ctx context.Context, a agent.Agent) (bool, error)
	// Hooks runs the project's hooks.
	Hooks(ctx context.Context, s *agent.State, call hook.Call) (hook.Outcome, error)
	// Ack makes the machine forget a result.
	Ack(ctx context.Context, callID string) error
	// Commit commits the uncommitted changes in the agent's n-th repository,
	// from 0. It runs the project's git hooks unless skipHooks is true.
	Commit(ctx context.Context, n int, message string, skipHooks bool) (Delivered, error)
	// Subagents returns the files in which the repositories define subagents.
	Subagents(ctx context.Context) ([]subagent.File, error)
	// Rules reads the rules of folders of the repositories.
	Rules(ctx context.Context, folders []rule.Folder) (rule.Set, error)
	// Push pushes the branch of the n-th repository. It runs the project's git
	// hooks unless skipHooks is true.
	Push(ctx context.Context, n int, branch string, skipHooks bool) (Delivered, error)
	// Keep copies the machine's artifacts to permanent storage.
	Keep(ctx context.Context) error
}

// Delta is a piece of a call's output. Seq counts the pieces of a call from 1.
type Delta struct {
	Stdout, Stderr string
	Seq            uint64
}

// Delivered is the outcome of a commit or a push.
type Delivered struct {
	Commit string // the repository's commit, or the commit of its branch on the remote
	Made   bool   // whether a commit had uncommitted changes
	Note   string // why git hooks refused or did not run, or ""
}
