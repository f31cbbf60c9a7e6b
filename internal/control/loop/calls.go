package loop

import (
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"aloft/internal/agent"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/fault"
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
	for _, c := range todo { // hooks run in the machine, also for calls of the control plane
		if spec, ok := tool.Lookup(c.Name); ok && spec.Reviewed {
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
			if !c.Sent { // pause only before a call is sent
				if err := t.holdWhilePaused(each); err != nil {
					return err
				}
			}
			return fault.Contain(func() error { return t.call(each, c) })
		})
	}
	return group.Wait()
}

// call checks a call, runs the hooks before it, decides whether it may run,
// runs it, runs the hooks after it, and journals its result.
func (t *thread) call(ctx context.Context, c agent.Call) error {
	r, err := t.route(ctx, c)
	if err != nil {
		return err
	}
	if r.why == "" && r.reviewed {
		var admitted bool
		if c, admitted, err = t.admit(ctx, c); err != nil || !admitted {
			return err
		}
		if r, err = t.route(ctx, c); err != nil { // a hook may have changed the call
			return err
		}
	}
	if r.why != "" {
		return t.recordResult(ctx, c.ID, tool.Failed("%s", r.why), 0, t.unjournaled(c)...)
	}
	out, err := r.run(ctx, c)
	if errors.Is(err, remote.ErrHooked) {
		return t.callAgain(ctx, c)
	}
	if err != nil {
		return err
	}
	if r.reviewed {
		if err := t.after(ctx, c, &out.result, out.took); err != nil && !errors.Is(err, remote.ErrLost) {
			return err
		}
	}
	if err := t.recordResult(ctx, c.ID, out.result, out.took, append(t.unjournaled(c), out.events...)...); err != nil {
		return err
	}
	if out.keepsResult {
		t.acks.add(c.ID)
	}
	return nil
}

// callAgain decides again about a call that the machine refused to start
// because the call's hooks had not run.
func (t *thread) callAgain(ctx context.Context, c agent.Call) error {
	if err := t.record(ctx, &agent.CallReturned{CallID: c.ID}); err != nil {
		return err
	}
	t.present.Store(nil)
	c.Sent, c.BootID, c.Unhooked, c.Judged = false, "", false, nil
	return t.call(ctx, c)
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
		case errors.Is(err, remote.ErrLost): // the call was lost with the machine
			return err
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			t.Logger.Warn("cannot abort a call; it may still be running", "call", c.ID, "error", err)
			result = tool.Failed("%s", tool.NotEnded)
		case !started:
			result = tool.Failed("%s", tool.NeverStarted)
		}
		if err := t.recordResult(ctx, c.ID, result, took); err != nil {
			return err
		}
		if err := t.machine.Ack(ctx, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// recordResult journals the other events, then a result. It does so even if ctx
// has ended, since the call has already happened.
func (t *thread) recordResult(ctx context.Context, id string, r tool.Result, took time.Duration, before ...agent.Body) error {
	last, cancel := journal.Outliving(ctx)
	defer cancel()
	done := &agent.CallDone{CallID: id, Text: r.Text, Error: r.Error, Output: r.Output, Images: r.Images, DurationMS: took.Milliseconds()}
	if done.Text == "" {
		done.Text = "(no output)"
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
