package loop

import (
	"context"
	"errors"
	"fmt"
	"golang.org/x/sync/errgroup"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/offer"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/loop/task"
	"aloft/internal/control/review"
	controltool "aloft/internal/control/tool"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/policy/sandbox"
	"aloft/internal/tool"
)

// maxParallel is how many calls of one reply run in parallel.
const maxParallel = 8

// maxCallOutput is how many bytes of a call's output are streamed to clients.
// The result always has the head and the tail.
const maxCallOutput = 1 << 20

// calls runs the calls without a result: in parallel if all of them only read,
// otherwise one after another.
func (t *thread) calls(ctx context.Context) error {
	var todo []agent.Call
	most := maxParallel
	for _, c := range t.state().Calls {
		switch {
		case c.Result != nil:
			continue
		case !t.onlyReads(c):
			most = 1
		case c.Name == agent.TaskTool:
			most = min(most, maxTasks)
		}
		todo = append(todo, c)
	}
	for _, c := range todo {
		if spec, ok := tool.Lookup(c.Name); ok && (spec.Home == tool.Guest || controltool.Reviewed(c.Name)) {
			if err := t.reach(ctx); err != nil {
				return err
			}
			break
		}
	}
	defer t.acknowledge(ctx)
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(most)
	for _, c := range todo {
		group.Go(func() error {
			if err := context.Cause(each); err != nil {
				return err
			}
			if !c.Sent { // a call that is already running is not paused
				if err := t.holdWhilePaused(each); err != nil {
					return err
				}
			}
			return fault.Contain(func() error { return t.call(each, c) })
		})
	}
	return group.Wait()
}

// call runs one call and journals its result.
func (t *thread) call(ctx context.Context, c agent.Call) error {
	spec, ok := tool.Lookup(c.Name)
	switch {
	case !ok:
		return t.done(ctx, c.ID, tool.Failed("there is no tool %q; the tools are %s", c.Name, toolNames()), 0)
	case t.withheld(spec) != "":
		return t.done(ctx, c.ID, tool.Failed("%s", t.withheld(spec)), 0)
	case notObject(c):
		return t.done(ctx, c.ID, tool.Failed("the arguments were not a JSON object; send the call again"), 0)
	case offer.IsTool(c.Name):
		return t.mcpCall(ctx, c)
	case controltool.Consults(c.Name):
		return t.consult(ctx, c)
	case spec.Home == tool.Control && !controltool.Reviewed(c.Name):
		return t.controlCall(ctx, c)
	case spec.Home == tool.Guest && c.Sent && c.BootID != t.machine.BootID():
		return t.done(ctx, c.ID, tool.Failed("%s", tool.Lost), 0)
	}
	c, admitted, err := t.admit(ctx, c)
	if err != nil || !admitted {
		return err
	}
	switch {
	case c.Name == agent.TaskTool:
		return t.delegate(ctx, c)
	case c.Name == applyDiff && !c.Sent:
		return t.applyPatches(ctx, c)
	case c.Name == paintImage && !c.Sent:
		return t.generateImage(ctx, c)
	case spec.Home == tool.Control:
		return t.controlCall(ctx, c)
	}
	return t.send(ctx, c, nil)
}

// send has the machine run an admitted call, and journals its result. add may
// change the result first; it may be nil.
func (t *thread) send(ctx context.Context, c agent.Call, add func(*tool.Result)) error {
	run, err := t.wayOf(ctx, c) // before the call counts as sent, since it may block or fail
	if err != nil {
		return err
	}
	if t.Review != nil {
		if c.Guarded, err = t.Review.Guards(ctx, t.state().Agent, c.ToolCall); err != nil {
			return err
		}
	}
	if !c.Sent {
		if err := t.record(ctx, t.sent(c, t.machine.BootID())...); err != nil {
			return err
		}
	}
	deltas := journal.NewBatch(ctx, t.record)
	began, shown := time.Now(), c.Shown
	result, took, err := run(ctx, t.routedCall(c), func(d remote.Delta) {
		size := len(d.Stdout) + len(d.Stderr)
		if d.Seq <= c.Upto || shown+size > maxCallOutput { // shown before a restart, or over the limit
			return
		}
		shown += size + journal.EventWeight/2 // account for the overhead of small pieces
		deltas.Add(&agent.CallDelta{CallID: c.ID, Stdout: d.Stdout, Stderr: d.Stderr, Upto: d.Seq}, size)
	})
	rest, writeErr := deltas.Close()
	switch {
	case errors.Is(err, remote.ErrHooked):
		return t.callAgain(ctx, c)
	case errors.Is(err, remote.ErrLost):
		lost := tool.Failed("%s", tool.Lost)
		tellErr := t.tellShortage(ctx, c, began, &lost)
		if doneErr := t.done(ctx, c.ID, lost, took, rest...); doneErr != nil {
			return doneErr
		}
		return errors.Join(err, tellErr)
	case err != nil:
		return errors.Join(fmt.Errorf("call %s: %w", c.Name, err), t.record(ctx, rest...))
	case writeErr != nil:
		return writeErr
	}
	if t.hasHooks() { // hooks may take long; do not hold back the output meanwhile
		if err := t.record(ctx, rest...); err != nil {
			return err
		}
		rest = nil
	}
	if add != nil {
		add(&result)
	}
	if err := t.tellShortage(ctx, c, began, &result); err != nil {
		return err
	}
	if err := t.after(ctx, c, &result, took); err != nil && !errors.Is(err, remote.ErrLost) {
		return err
	}
	if err := t.done(ctx, c.ID, result, took, rest...); err != nil {
		return err
	}
	t.acks.add(c.ID)
	return nil
}

// callAgain decides again about a call that the machine did not start, because
// it has hooks that did not run.
func (t *thread) callAgain(ctx context.Context, c agent.Call) error {
	if err := t.record(ctx, &agent.CallReturned{CallID: c.ID}); err != nil {
		return err
	}
	t.present.Store(nil)
	c.Sent, c.BootID, c.Unhooked, c.Judged = false, "", false, nil
	return t.call(ctx, c)
}

// way is the function with which the machine runs a call.
type way = func(ctx context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, time.Duration, error)

// wayOf returns the way that was decided for a call, also when it is sent
// again. A call that an older server sent without a decision is not started
// again, because nobody knows whether it belongs in the sandbox.
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

// guardedWay returns the way of a shell command that an allow list allows: the
// machine runs it in the sandbox after all if sandboxed commands could have
// changed which programs it starts.
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

// abandon ends the running calls of all conversations of the run.
func (l *Loop) abandon(ctx context.Context) error {
	err := l.own.abandon(ctx)
	if err == nil && len(l.rec.Snapshot().Checking.Thread.Calls) > 0 {
		err = l.checksThread().abandon(ctx)
	}
	for _, sub := range l.rec.Snapshot().Subagents {
		if sub.Busy && err == nil {
			err = (&thread{Loop: l, machine: l.own.machine, task: sub.CallID}).abandon(ctx)
		}
	}
	return err
}

// abandon aborts the conversation's calls that were sent and have no result,
// and journals their outcome. Otherwise they would keep running in the machine,
// and the next run's calls would wait for them. It starts no call.
func (t *thread) abandon(ctx context.Context) error {
	for _, c := range t.state().Calls {
		if c.Result != nil || !c.Sent || c.BootID != t.machine.BootID() {
			continue
		}
		aborted, abort := context.WithCancelCause(ctx)
		abort(ErrCancel)
		result, took, started, err := t.machine.Attach(aborted, c.ID, func(remote.Delta) {})
		switch {
		case errors.Is(err, remote.ErrLost): // the call is lost with the machine
			return err
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			t.Logger.Warn("cannot abort a call; it may still be running", "call", c.ID, "error", err)
			result = tool.Failed("%s", tool.NotEnded)
		case !started:
			result = tool.Failed("%s", tool.NeverStarted)
		}
		if err := t.done(ctx, c.ID, result, took); err != nil {
			return err
		}
		if err := t.machine.Ack(ctx, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// controlCall runs a tool of the control plane. Such tools are idempotent, so
// they can run again after a crash.
func (t *thread) controlCall(ctx context.Context, c agent.Call) error {
	if !c.Sent {
		if err := t.record(ctx, t.sent(c, "")...); err != nil {
			return err
		}
	}
	start := time.Now()
	run := map[string]func(context.Context, conversation.ToolCall) (tool.Result, error){
		task.ManagePull: t.manage, searchWeb: t.searchWeb,
	}[c.Name]
	if run != nil {
		result, err := run(ctx, c.ToolCall)
		if err != nil {
			return err
		}
		return t.done(ctx, c.ID, result, time.Since(start))
	}
	result, kept := controltool.Run(ctx, c.ToolCall, t.state(), t.Tools.Scripts)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if kept != nil {
		return t.done(ctx, c.ID, result, time.Since(start), kept)
	}
	return t.done(ctx, c.ID, result, time.Since(start))
}

// manage runs a PrManagement call.
func (t *thread) manage(ctx context.Context, c conversation.ToolCall) (tool.Result, error) {
	return t.requests.Manage(ctx, c, t.machine)
}

// done journals a result, preceded by the other events. It does so even if ctx
// has ended, since the call has already happened.
func (t *thread) done(ctx context.Context, id string, r tool.Result, took time.Duration, before ...agent.Body) error {
	last, cancel := journal.Outliving(ctx)
	defer cancel()
	done := &agent.CallDone{CallID: id, Text: r.Text, Error: r.Error, Output: r.Output, DurationMS: took.Milliseconds()}
	if done.Text == "" {
		done.Text = "(no output)"
	}
	for _, i := range r.Images {
		done.Images = append(done.Images, conversation.Image{MediaType: i.MediaType, Data: i.Data})
	}
	return t.record(last, append(before, done)...)
}

func toolNames() string {
	var names []string
	for _, s := range tool.Catalogue() {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}
