package fleet

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/execclient"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/control/pod"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/hook"
	"aloft/internal/mcp"
	"aloft/internal/policy/sandbox"
	"aloft/internal/rule"
	"aloft/internal/subagent"
	"aloft/internal/tool"
)

// readyMachine is a ready machine, as used by one loop.
type readyMachine struct {
	// enforced reports whether the sandbox can enforce its policy in machines
	// of this class.
	enforced    bool
	conn        *pod.Conn
	calls       *execclient.Calls
	id          string // the machine's id
	hooks       *execclient.Hooks
	rules       *execclient.Rules
	mcp         *execclient.MCP
	mcpSandbox  func(context.Context, agent.Agent) (*sandbox.Policy, error) // sandbox policy for MCP servers
	people      func(context.Context, agent.Agent) (Hooks, error)           // returns the hooks that people have configured
	hookSandbox func(context.Context, agent.Agent) (*sandbox.Policy, error) // sandbox policy for hooks
	gitSandbox  func(context.Context) (*sandbox.Policy, error)              // sandbox policy for git hooks
	boot        string
	checksHooks bool                        // the machine refuses unhooked calls if it has hooks
	lacking     []string                    // tools that cannot work in the machine
	known       []string                    // calls that the machine knew at the time of connecting
	token       string                      // access token of exec-daemon
	folders     []string                    // the repositories' folders
	repos       []string                    // URLs, if there are several repositories
	refused     []string                    // messages about dependencies that git may not fetch
	reads       []string                    // URLs of other repositories that git may fetch
	keep        func(context.Context) error // copies artifacts
	revoke      func()
	letGo       func() // releases the connection
	traced      bool   // whether the machine sends spans over the connection
	stale       func() // stops the renewal of credentials
}

// keepFresh runs do until the machine is closed. do renews expiring
// credentials.
func (h *readyMachine) keepFresh(ctx context.Context, do func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	h.stale = func() { cancel(); <-done }
	go func() {
		defer close(done)
		do(ctx)
	}()
}

func (h *readyMachine) close() {
	h.stale()
	// The error does not matter: the loop is done with the machine.
	_ = h.calls.Close()
	h.hooks.Close()
	h.rules.Close()
	h.mcp.Close()
	h.revoke()
	if h.traced {
		time.AfterFunc(traceLinger, h.letGo)
		return
	}
	h.letGo()
}

// traceLinger is how long a connection stays open for the last spans of a run,
// which exec-daemon sends over it.
const traceLinger = 10 * time.Second

// BootID implements [remote.Machine].
func (h *readyMachine) BootID() string { return h.boot }

// Call implements [remote.Machine]. Only a cancel aborts the call in the machine.
// If the server stops or loses the lease, the call continues and the next
// server attaches to it.
func (h *readyMachine) Call(ctx context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, time.Duration, error) {
	return h.call(ctx, c, h.calls.Call, onDelta)
}

// Attach implements [remote.Machine].
func (h *readyMachine) Attach(ctx context.Context, callID string, onDelta func(remote.Delta)) (r tool.Result, took time.Duration, started bool, err error) {
	r, took, err = h.call(ctx, conversation.ToolCall{ID: callID}, func(ctx context.Context, c conversation.ToolCall, onDelta func(execclient.Delta)) (r tool.Result, took time.Duration, err error) {
		r, took, started, err = h.calls.Attach(ctx, c.ID, onDelta)
		return r, took, err
	}, onDelta)
	return r, took, started, err
}

// Known implements [remote.Machine].
func (h *readyMachine) Known() []string { return h.known }

// Drop implements [remote.Machine].
func (h *readyMachine) Drop(ctx context.Context, callID string) error {
	return lostError(h.calls.Drop(ctx, callID))
}

// CallSandboxed implements [remote.Machine].
func (h *readyMachine) CallSandboxed(ctx context.Context, c conversation.ToolCall, p sandbox.Policy, onDelta func(remote.Delta)) (tool.Result, time.Duration, error) {
	return h.call(ctx, c, func(ctx context.Context, c conversation.ToolCall, onDelta func(execclient.Delta)) (tool.Result, time.Duration, error) {
		return h.calls.CallSandboxed(ctx, c, p, onDelta)
	}, onDelta)
}

// exec is a function with which the machine runs a call.
type exec = func(context.Context, conversation.ToolCall, func(execclient.Delta)) (tool.Result, time.Duration, error)

func (h *readyMachine) call(ctx context.Context, c conversation.ToolCall, run exec, onDelta func(remote.Delta)) (tool.Result, time.Duration, error) {
	call, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	defer context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); loop.Aborts(cause) {
			abort(cause)
			return
		}
		_ = h.calls.Close() // makes Call return with an error
	})()
	r, took, err := run(call, c, func(d execclient.Delta) { onDelta(remote.Delta(d)) })
	if errors.Is(err, execclient.ErrHooked) {
		return r, 0, errors.Join(remote.ErrHooked, err)
	}
	return r, took, lostError(err)
}

// Enforced implements [remote.Machine].
func (h *readyMachine) Enforced() bool { return h.enforced }

// Lacking implements [remote.Machine].
func (h *readyMachine) Lacking() []string { return h.lacking }

// Servers implements [remote.Machine].
func (h *readyMachine) Servers(ctx context.Context, s *agent.State, servers []mcp.Server, wait time.Duration) ([]mcp.Listing, error) {
	around, err := h.mcpSandbox(ctx, s.Agent)
	if err != nil {
		return nil, err
	}
	all, err := h.mcp.Use(ctx, servers, around, wait)
	return all, lostError(err)
}

// Unhooked implements [remote.Machine].
func (h *readyMachine) Unhooked(ctx context.Context, a agent.Agent) (bool, error) {
	if !h.checksHooks {
		return false, nil
	}
	people, err := h.people(ctx, a)
	return people.Team == nil && people.User == nil, err
}

// Hooks implements [remote.Machine].
func (h *readyMachine) Hooks(ctx context.Context, s *agent.State, call hook.Call) (hook.Outcome, error) {
	people, err := h.people(ctx, s.Agent)
	if err != nil {
		return hook.Outcome{}, err
	}
	around, err := h.hookSandbox(ctx, s.Agent)
	if err != nil {
		return hook.Outcome{}, err
	}
	out, err := h.hooks.Run(ctx, execclient.HookCall{
		Call: call, Sandbox: around, ConversationID: s.Agent.ID, GenerationID: s.Run.ID, Model: model.ParseRef(s.Agent.Model).ID,
		Email: people.Email, Team: people.Team, User: people.User,
	})
	return out, lostError(err)
}

// Ack implements [remote.Machine].
func (h *readyMachine) Ack(ctx context.Context, callID string) error {
	return lostError(h.calls.Ack(ctx, callID))
}

// Commit implements [remote.Machine].
func (h *readyMachine) Commit(ctx context.Context, n int, message string, skipHooks bool) (remote.Delivered, error) {
	around, err := h.gitSandbox(ctx)
	if err != nil {
		return remote.Delivered{}, err
	}
	c, err := h.conn.Commit(ctx, n, message, skipHooks, around)
	if err != nil {
		return remote.Delivered{}, gitFault(err, h.name(n))
	}
	return remote.Delivered{Commit: c.Commit, Made: c.Made, Note: c.Note}, nil
}

// Subagents implements [remote.Machine].
func (h *readyMachine) Subagents(ctx context.Context) ([]subagent.File, error) {
	files := execclient.NewFiles(h.conn, h.token)
	defer files.Close()
	var all []subagent.File
	for _, root := range h.folders {
		var folders []string
		for _, folder := range subagent.Folders {
			folders = append(folders, path.Join(root, folder))
		}
		plugins, err := pluginAgents(ctx, files, root)
		if err != nil {
			return nil, lostError(err)
		}
		for _, folder := range append(folders, plugins...) {
			found, err := definitions(ctx, files, folder, subagent.MaxFiles-len(all))
			if err != nil {
				return nil, lostError(err)
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// definitions returns the files in a folder that define subagents, at most the
// given number. It returns none if it cannot read the folder.
func definitions(ctx context.Context, files *execclient.Files, folder string, most int) ([]subagent.File, error) {
	entries, err := files.List(ctx, folder)
	if err != nil {
		return nil, fatalError(ctx, err)
	}
	var all []subagent.File
	for _, e := range entries {
		if e.Folder || path.Ext(e.Name) != ".md" || len(all) == most {
			continue
		}
		name := path.Join(folder, e.Name)
		data, err := readFile(ctx, files, name, subagent.MaxFile+1)
		if fatal := fatalError(ctx, err); fatal != nil {
			return nil, fatal
		}
		if err != nil {
			continue
		}
		all = append(all, subagent.File{Path: strings.TrimPrefix(name, agent.Workspace+"/"), Data: data})
	}
	return all, nil
}

// Rules implements [remote.Machine].
func (h *readyMachine) Rules(ctx context.Context, folders []rule.Folder) (rule.Set, error) {
	rules, err := h.rules.Read(ctx, folders)
	return rules, lostError(err)
}

// Push implements [remote.Machine].
func (h *readyMachine) Push(ctx context.Context, n int, branch string, skipHooks bool) (remote.Delivered, error) {
	around, err := h.gitSandbox(ctx)
	if err != nil {
		return remote.Delivered{}, err
	}
	p, err := h.conn.Push(ctx, n, branch, skipHooks, around)
	if err != nil {
		return remote.Delivered{}, gitFault(err, h.name(n))
	}
	return remote.Delivered{Commit: p.Commit, Note: p.Note}, nil
}

// name returns the URL of the n-th repository if there are several, and
// otherwise "".
func (h *readyMachine) name(n int) string {
	if n < len(h.repos) {
		return h.repos[n]
	}
	return ""
}

// Keep implements [remote.Machine].
func (h *readyMachine) Keep(ctx context.Context) error { return lostError(h.keep(ctx)) }

// lostError converts an error that means the machine is gone to
// [remote.ErrLost]. If the machine flooded its connection, lostError does not
// convert the error, so that the machine is not dialed again and the run ends.
func lostError(err error) error {
	if errors.Is(err, pod.ErrExceeded) {
		return fault.Exhausted("the machine flooded its connection to the server, which was ended").Named("machine_flood").
			Hint("check the last tool calls with `aloft agent logs`, then send a follow-up").Because(err)
	}
	if errors.Is(err, pod.ErrLost) {
		return fmt.Errorf("%w: %w", remote.ErrLost, err)
	}
	return err
}

// gitFault converts an error of git in the machine to a message for users. url
// is the repository's URL if the agent has several repositories, else "".
func gitFault(err error, url string) error {
	g, ok := errors.AsType[*pod.GitError](err)
	if !ok {
		return lostError(err)
	}
	if url != "" {
		url = " of " + url
	}
	failed := repoFault(g.Code, g.Op+url, g.Detail)
	if f, ok := errors.AsType[*fault.Error](failed); ok && g.Bundle != "" {
		f.Message += fmt.Sprintf(". The commits are saved as the artifact %s, a git bundle: `git fetch FILE HEAD` reads it", g.Bundle)
	}
	return failed
}

// stepFault converts an error of a boot step to a message for users.
func stepFault(err error) error {
	s, ok := errors.AsType[*pod.StepError](err)
	if !ok {
		return lostError(err)
	}
	return repoFault(s.Code, s.Step, s.Detail)
}

// repoFault converts a failure of git to a fault, by its code.
func repoFault(code, op, detail string) error {
	switch code {
	case pod.CodeRepoNotFound:
		return fault.NotFound("%s: the repository was not found: %s", op, detail).Named(code).
			Hint("check its URL, and that the server's credential can read it")
	case pod.CodeRefNotFound:
		return fault.NotFound("%s: the repository has no such branch, tag or commit: %s", op, detail).Named(code).
			Hint("check startingRef")
	case pod.CodeBranchTaken:
		return fault.Conflict("%s: the branch on the remote has commits that the agent does not: %s", op, detail).Named(code).
			Hint("send a follow-up that asks to rebase, or rename the branch on the remote")
	case pod.CodeSecretInPush:
		return fault.Denied("%s: the commits contain a secret: %s", op, detail).Named(code).
			Hint("send a follow-up that asks to remove the value from those commits")
	case pod.CodeHookFailed:
		return fault.Conflict("%s: the project's git hook refused: %s", op, detail).Named(code).
			Hint("send a follow-up that asks to fix what the hook found")
	case pod.CodeNoPrograms:
		return fault.Invalid("the machine's image lacks programs that agents need: %s", detail).Named("image_incomplete").
			Hint("install them in the image, or set another one: machine.image of the server, image of environment.json")
	case pod.CodeDenied:
		return fault.Denied("%s: the remote refused: %s", op, detail).Named("repo_denied").
			Hint("check git.credentials in the server's configuration")
	case pod.CodeUnavailable:
		return fault.Unavailable("%s: the remote is unreachable: %s", op, detail).Named("repo_unreachable").
			Hint("try again with a follow-up")
	case pod.CodeDiskFull:
		return fault.Exhausted("%s: the disk is full: %s", op, detail).Named(code).
			Hint("free space where the server keeps its data, and send a follow-up")
	}
	return fault.Unavailable("%s failed: %s", op, detail).Named("machine_failed").
		Hint("check the boot steps with `aloft agent logs`")
}

// journalled converts a boot step to the journal's form.
func journalled(s pod.Step) *agent.BootStep {
	return &agent.BootStep{Name: s.Name, State: string(s.State), DurationMS: s.Duration.Milliseconds(), Detail: s.Detail}
}
