package loop_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/hook"
	"aloft/internal/mcp"
	"aloft/internal/policy/sandbox"
	"aloft/internal/rule"
	"aloft/internal/subagent"
	"aloft/internal/tool"
)

// fakeMachine is a fake machine. Like exec-daemon it keeps every call until it gets
// the acknowledgement, and never starts a call twice.
type fakeMachine struct {
	boot   string
	commit string // the commit that the machine pushes; "" means c0ffee
	// call runs a call; nil returns "ok". When another loop attaches to a call
	// whose loop has died, this function runs again, but the call counts as
	// started once.
	call   func(ctx context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, error)
	starts func(c conversation.ToolCall, sandboxed bool) // called for each call that is started; may be nil
	slots  int                                           // how many calls the machine can keep; 0 means no limit
	push   error
	pushed func() error // returned by pushes
	// hook, if not nil, replaces commits and pushes.
	hook     func(what string, skipHooks bool) (remote.Delivered, error)
	hooks    func(call hook.Call) hook.Outcome
	takes    func(call hook.Call) time.Duration // how long hooks take; nil means no time
	enforced bool
	lacking  []string        // tools that cannot work in this machine
	files    []subagent.File // files that define subagents
	listings []mcp.Listing   // MCP servers in the machine
	// rules returns the rules of a folder. If rules is nil, there are none.
	rules func(rule.Folder) rule.Set

	mu       sync.Mutex
	kept     map[string]*keptCall // by boot and id
	forgot   map[string]bool      // acknowledged calls, by boot and id
	dirty    bool                 // a call may have changed a file since the last commit
	asked    []string             // names of the calls started, commits and pushes
	acked    []string
	keeps    int              // how often artifacts were stored
	policies []sandbox.Policy // sandbox policies of the calls
}

// keptCall is a call that has started and is not acknowledged.
type keptCall struct {
	call   conversation.ToolCall
	result *tool.Result // nil while the call runs
}

// runs makes the machine run a call that an earlier loop sent.
func (h *fakeMachine) runs(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(conversation.ToolCall{ID: id, Name: "Shell", Args: json.RawMessage("{}")})
}

// keep adds a call. The caller holds h.mu.
func (h *fakeMachine) keep(c conversation.ToolCall) *keptCall {
	if h.kept == nil {
		h.kept = map[string]*keptCall{}
	}
	k := &keptCall{call: c}
	h.kept[h.boot+"/"+c.ID] = k
	return k
}

func (h *fakeMachine) Servers(_ context.Context, _ *agent.State, servers []mcp.Server, _ time.Duration) ([]mcp.Listing, error) {
	for _, s := range servers {
		h.note("runs " + s.Name)
	}
	return h.listings, nil
}

func (h *fakeMachine) Enforced() bool { return h.enforced }

func (h *fakeMachine) Lacking() []string { return h.lacking }

func (h *fakeMachine) BootID() string { return h.boot }

func (h *fakeMachine) Subagents(context.Context) ([]subagent.File, error) { return h.files, nil }

func (h *fakeMachine) Rules(_ context.Context, folders []rule.Folder) (all rule.Set, err error) {
	for _, f := range folders {
		if h.rules != nil {
			h.note("rules of /" + f.Path)
			found := h.rules(f)
			all.Rules, all.LeftOut = append(all.Rules, found.Rules...), append(all.LeftOut, found.LeftOut...)
		}
	}
	return all, nil
}

func (h *fakeMachine) note(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, what)
}

func (h *fakeMachine) Hooks(ctx context.Context, _ *agent.State, call hook.Call) (hook.Outcome, error) {
	if h.takes != nil {
		select {
		case <-time.After(h.takes(call)):
		case <-ctx.Done():
		}
	}
	if err := context.Cause(ctx); err != nil {
		return hook.Outcome{}, err
	}
	if h.hooks == nil {
		return hook.Outcome{}, nil
	}
	out := h.hooks(call)
	for _, e := range call.Events { // as if the machine had hooks for all these events
		if !slices.Contains(out.Present, e.Event) {
			out.Present = append(out.Present, e.Event)
		}
	}
	return out, nil
}

func (h *fakeMachine) Unhooked(context.Context, agent.Agent) (bool, error) { return true, nil }

func (h *fakeMachine) Call(ctx context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, time.Duration, error) {
	return h.work(ctx, c, nil, onDelta)
}

func (h *fakeMachine) CallSandboxed(ctx context.Context, c conversation.ToolCall, p sandbox.Policy, onDelta func(remote.Delta)) (tool.Result, time.Duration, error) {
	if c.Guard != nil { // nothing in this machine requires the sandbox
		return h.work(ctx, c, nil, onDelta)
	}
	return h.work(ctx, c, &p, onDelta)
}

func (h *fakeMachine) work(ctx context.Context, c conversation.ToolCall, p *sandbox.Policy, onDelta func(remote.Delta)) (tool.Result, time.Duration, error) {
	h.mu.Lock()
	k, known := h.kept[h.boot+"/"+c.ID]
	switch {
	case known:
		h.mu.Unlock()
		return h.follow(ctx, k, onDelta)
	case h.forgot[h.boot+"/"+c.ID]:
		h.mu.Unlock()
		return tool.Failed("call %s was acknowledged; it is not run again", c.ID), 0, nil
	case context.Cause(ctx) != nil:
		h.mu.Unlock()
		return tool.Result{}, 0, context.Cause(ctx)
	case c.Unhooked && h.hooks != nil:
		h.mu.Unlock()
		return tool.Result{}, 0, remote.ErrHooked
	case h.slots > 0 && len(h.kept) >= h.slots:
		h.mu.Unlock()
		return tool.Failed("the call was not run: %d calls wait to be acknowledged", len(h.kept)), 0, nil
	}
	k = h.keep(c)
	if p != nil {
		h.asked = append(h.asked, "sandboxed "+strings.Join(p.ReadWrite, " "))
		h.policies = append(h.policies, *p)
	}
	h.asked = append(h.asked, c.Name)
	spec, _ := tool.Lookup(c.Name)
	h.dirty = h.dirty || !spec.ReadOnly
	h.mu.Unlock()
	if h.starts != nil {
		h.starts(c, p != nil)
	}
	return h.follow(ctx, k, onDelta)
}

// follow waits for a call. A loop that leaves early gets no result, but the
// machine keeps the result.
func (h *fakeMachine) follow(ctx context.Context, k *keptCall, onDelta func(remote.Delta)) (tool.Result, time.Duration, error) {
	h.mu.Lock()
	result := k.result
	h.mu.Unlock()
	if result == nil {
		r, err := tool.Result{Text: "ok", Output: json.RawMessage(`{"success":{}}`)}, error(nil)
		if h.call != nil {
			r, err = h.call(ctx, k.call, onDelta)
		}
		if err != nil {
			return tool.Result{}, time.Millisecond, err
		}
		result = &r
		h.mu.Lock()
		k.result = result
		h.mu.Unlock()
	}
	if cause := context.Cause(ctx); cause != nil && !loop.Aborts(cause) {
		return tool.Result{}, 0, cause
	}
	return *result, time.Millisecond, nil
}

func (h *fakeMachine) Attach(ctx context.Context, id string, onDelta func(remote.Delta)) (tool.Result, time.Duration, bool, error) {
	h.mu.Lock()
	k, known := h.kept[h.boot+"/"+id]
	h.mu.Unlock()
	if !known {
		return tool.Failed("call %s was never started", id), 0, false, nil
	}
	r, took, err := h.follow(ctx, k, onDelta)
	return r, took, true, err
}

func (h *fakeMachine) Known() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for _, key := range slices.Sorted(maps.Keys(h.kept)) {
		if id, ok := strings.CutPrefix(key, h.boot+"/"); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func (h *fakeMachine) Ack(ctx context.Context, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.forgot == nil {
		h.forgot = map[string]bool{}
	}
	h.acked = append(h.acked, id)
	h.forgot[h.boot+"/"+id] = true
	delete(h.kept, h.boot+"/"+id)
	return context.Cause(ctx) // the machine has received the acknowledgement nevertheless
}

func (h *fakeMachine) Drop(ctx context.Context, id string) error { return h.Ack(ctx, id) }

func (h *fakeMachine) Commit(_ context.Context, _ int, _ string, skipHooks bool) (remote.Delivered, error) {
	h.note("commit")
	if h.hook != nil {
		return h.hook("commit", skipHooks)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	made := h.dirty
	h.dirty = false
	return remote.Delivered{Commit: "c0ffee", Made: made}, nil
}

func (h *fakeMachine) Push(_ context.Context, _ int, branch string, skipHooks bool) (remote.Delivered, error) {
	h.note("push " + branch)
	done := remote.Delivered{Commit: cmp.Or(h.commit, "c0ffee")}
	switch {
	case h.hook != nil:
		return h.hook("push", skipHooks)
	case h.pushed != nil:
		return done, h.pushed()
	}
	return done, h.push
}

func (h *fakeMachine) Keep(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keeps++
	return errors.New("the bucket is away")
}

func TestTheMachineOfTests(t *testing.T) {
	h := &fakeMachine{boot: "a", slots: 1}
	c := conversation.ToolCall{ID: "c1", Name: "Shell"}
	for range 2 {
		if r, _, err := h.Call(t.Context(), c, nil); err != nil || r.Error {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if r, _, _ := h.Call(t.Context(), conversation.ToolCall{ID: "c2", Name: "Shell"}, nil); !r.Error {
		t.Error("it has no place for another, and takes it")
	}
	if err := h.Ack(t.Context(), "c1"); err != nil || len(h.Known()) != 0 || !slices.Equal(h.asked, []string{"Shell"}) {
		t.Errorf("%v; it knows %q and was asked %q", err, h.Known(), h.asked)
	}
	if _, _, started, _ := h.Attach(t.Context(), "c1", nil); started {
		t.Error("it knows a call that was acknowledged")
	}
}
