package loop

import (
	"context"
	"errors"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/proof"
	"aloft/internal/control/loop/task"
	"aloft/internal/fault"
	"aloft/internal/hook"
)

// end ends the run because of the given cause, unless that cause leaves the run
// open.
func (l *Loop) end(ctx context.Context, cause error) error {
	if c := context.Cause(ctx); c != nil {
		cause = c
	}
	l.rec.Finish()
	ended, reason := &agent.RunEnded{Status: agent.Failed}, "error"
	switch {
	case l.rec.Ended():
		return nil
	case journal.LeavesOpen(cause):
		return cause
	case errors.Is(cause, ErrCancel):
		ended.Status, reason = agent.Cancelled, "aborted"
	case ctx.Err() != nil && !fault.Has(cause):
		return cause
	default:
		ended.Failure = failure(cause)
		l.Logger.Warn("run ended in error", "code", ended.Failure.Code, "error", cause)
	}
	if err := l.settleCalls(ctx); err != nil {
		return err
	}
	if ended.Status == agent.Cancelled {
		ended.Result = l.rec.Snapshot().LastWords()
	}
	if err := l.conclude(ctx, reason, ended); err != nil {
		return err
	}
	kept, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	l.keep(kept) // after the last event, so that the end of the run is not delayed
	return nil
}

// settleCalls aborts the calls that still run in the machine and journals their
// results. An unreachable machine does not prevent the run from ending.
func (l *Loop) settleCalls(ctx context.Context) error {
	if l.own.machine == nil {
		return nil
	}
	last, cancel := journal.Outliving(ctx)
	defer cancel()
	err := fault.Contain(func() error { return l.abandon(last) })
	if err == nil || journal.LeavesOpen(err) {
		return err
	}
	l.Logger.Warn("cannot end the run's calls; some may still be running", "error", err)
	return nil
}

// conclude runs the hooks for the end of a run and journals the last event. The
// hooks have their own timeout: they can delay the last event. Neither the
// hooks, nor a cancel request, nor a server shutdown can change the last event.
func (l *Loop) conclude(ctx context.Context, reason string, ended *agent.RunEnded) error {
	l.tellEnd(ctx, reason)
	last, cancel := journal.Outliving(ctx)
	defer cancel()
	ended.Outcome, ended.Evidence = proof.Outcome(l.rec.Snapshot(), ended)
	return l.rec.Close(last, ended)
}

// endHooksWithin is the timeout for the hooks of each event at the end of a
// run.
const endHooksWithin = 20 * time.Second

// tellEnd runs the hooks for the end of a run, once per loop. They run before
// the last event, so that their effects are journaled.
func (l *Loop) tellEnd(ctx context.Context, reason string) {
	if l.sessionEnded {
		return
	}
	l.sessionEnded = true
	ctx = context.WithoutCancel(ctx)
	stopping, cancel := context.WithTimeout(ctx, endHooksWithin)
	defer cancel()
	if reason != "completed" {
		l.own.tell(stopping, hook.Stop, map[string]any{"status": reason, "loop_count": l.rec.Followups()})
	}
	s := l.rec.Snapshot()
	for i := range s.Subagents {
		if sub := &s.Subagents[i]; sub.Busy {
			l.own.tell(stopping, hook.SubagentStop, task.StopFields(sub, reason))
		}
	}
	ending, cancelEnding := context.WithTimeout(ctx, endHooksWithin)
	defer cancelEnding()
	l.own.tell(ending, hook.SessionEnd, map[string]any{
		"session_id": s.Agent.ID, "reason": reason, "duration_ms": s.Run.Duration(time.Now()).Milliseconds(),
	})
}
