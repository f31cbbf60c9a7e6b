package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/review"
	"aloft/internal/conversation"
	"aloft/internal/policy/sandbox"
	"aloft/internal/tool"
)

// send makes the machine run a call, or attaches to the call if it was already
// sent.
func (t *thread) send(ctx context.Context, c agent.Call) (outcome, error) {
	run, err := t.wayOf(ctx, c) // before the call counts as sent, since it may block or fail
	if err != nil {
		return outcome{}, err
	}
	if t.Review != nil {
		if c.Guarded, err = t.Review.Guards(ctx, t.state().Agent, c.ToolCall); err != nil {
			return outcome{}, err
		}
	}
	if !c.Sent {
		if err := t.record(ctx, t.sentEvents(c, t.machine.BootID())...); err != nil {
			return outcome{}, err
		}
	}
	deltas := journal.NewBatch(ctx, t.record)
	began, shown := time.Now(), c.Shown
	result, took, err := run(ctx, t.routedCall(c), func(d remote.Delta) {
		size := len(d.Stdout) + len(d.Stderr)
		if d.Seq <= c.Upto || shown+size > maxCallOutput { // already shown before a restart, or over the limit
			return
		}
		shown += size + journal.EventWeight/2 // account for the overhead of small pieces
		deltas.Add(&agent.CallDelta{CallID: c.ID, Stdout: d.Stdout, Stderr: d.Stderr, Upto: d.Seq}, size)
	})
	rest, writeErr := deltas.Close()
	switch {
	case errors.Is(err, remote.ErrHooked):
		return outcome{}, err
	case errors.Is(err, remote.ErrLost):
		lost := tool.Failed("%s", tool.Lost)
		tellErr := t.tellShortage(ctx, c, began, &lost)
		if doneErr := t.recordResult(ctx, c.ID, lost, took, rest...); doneErr != nil {
			return outcome{}, doneErr
		}
		return outcome{}, errors.Join(err, tellErr)
	case err != nil:
		return outcome{}, errors.Join(fmt.Errorf("call %s: %w", c.Name, err), t.record(ctx, rest...))
	case writeErr != nil:
		return outcome{}, writeErr
	}
	if t.hasHooks() { // hooks may take long; do not delay the output
		if err := t.record(ctx, rest...); err != nil {
			return outcome{}, err
		}
		rest = nil
	}
	if err := t.tellShortage(ctx, c, began, &result); err != nil {
		return outcome{}, err
	}
	return outcome{result: result, took: took, events: rest, keepsResult: true}, nil
}

// way is the function with which the machine runs a call.
type way = func(ctx context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, time.Duration, error)

// wayOf returns the way to run a call, as decided before the call was first
// sent. wayOf does not restart a call that an older server sent without a
// decision, because it is unknown whether the call must run in the sandbox.
func (t *thread) wayOf(ctx context.Context, c agent.Call) (way, error) {
	switch {
	case c.Judged == nil:
		return func(ctx context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, time.Duration, error) {
			result, took, started, err := t.machine.Attach(ctx, c.ID, onDelta)
			if err == nil && !started {
				result = tool.Failed("%s", tool.NeverStarted)
			}
			return result, took, err
		}, nil
	case c.Judged.Treatment == agent.CallSandboxed:
		policy, err := t.sandboxPolicy(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, time.Duration, error) {
			return t.machine.CallSandboxed(ctx, c, policy, onDelta)
		}, nil
	case c.Name == "Shell" && c.Judged.By == "policy" && t.Review != nil && t.machine.Enforced():
		return t.guardedWay(ctx, c)
	}
	return t.machine.Call, nil
}

// guardedWay returns the way for a shell command that an allow list allows. The
// machine runs the command in the sandbox after all if sandboxed commands could
// have changed which programs it starts.
func (t *thread) guardedWay(ctx context.Context, c agent.Call) (way, error) {
	guard, err := t.Review.GuardsLine(ctx, t.state(), c.ToolCall)
	if err != nil || guard == nil {
		return t.machine.Call, err
	}
	policy, err := t.sandboxPolicy(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, time.Duration, error) {
		c.Guard = guard
		return t.machine.CallSandboxed(ctx, c, policy, onDelta)
	}, nil
}

// sandboxPolicy returns the sandbox policy. If the files that define it can no longer be
// read, it returns the strictest policy.
func (l *Loop) sandboxPolicy(ctx context.Context) (sandbox.Policy, error) {
	if l.Review == nil || l.rec.Snapshot().Mode == agent.ModePlan {
		return sandbox.Strictest(), nil
	}
	p, err := l.Review.SandboxPolicy(ctx, l.rec.Snapshot().Agent)
	if review.Unreadable(err) && ctx.Err() == nil || err == nil && p.Type == sandbox.InsecureNone {
		return sandbox.Strictest(), nil
	}
	return p, err
}
