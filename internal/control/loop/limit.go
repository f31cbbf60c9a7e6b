package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/loop/proof"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/fault"
)

// limitError is the error that ends a run when it has used up one of its
// limits.
type limitError struct {
	kind        allowance.Kind
	used, limit allowance.Amount
}

func (s *limitError) Error() string {
	return fmt.Sprintf("the run has used %s; its limit is %s", s.used.Text(s.kind), s.limit.Text(s.kind))
}

// Aborts reports whether a run ends because its context ended with the cause.
// If so, running calls in the machine are aborted; otherwise another server
// continues them.
func Aborts(cause error) bool {
	_, ok := errors.AsType[*limitError](cause)
	return ok || errors.Is(cause, ErrCancel)
}

// failure returns the error in the form that users see.
func (s *limitError) failure() *agent.Failure {
	return &agent.Failure{
		Code: "limit_" + string(s.kind), Message: s.Error(),
		Hint: "its work is saved; send a follow-up to continue with new or higher limits",
	}
}

// checkLimits returns a *spent once the run has used up a limit. It is called before
// each request to a model, so a run exceeds its limits by at most one reply of
// each of its conversations.
func (l *Loop) checkLimits() error {
	run := l.rec.Snapshot().Run
	used := run.Used(time.Now())
	if kind := run.Limit.Spent(used); kind != "" {
		return &limitError{kind, used, run.Limit}
	}
	return nil
}

// begin journals that the run has started, with its limits.
func (l *Loop) begin(ctx context.Context) error {
	s := l.rec.Snapshot()
	var allowed allowance.Amount
	if l.Team.Allowed != nil {
		var err error
		if allowed, err = l.Team.Allowed(ctx, s.Agent); err != nil {
			return err
		}
	}
	limit := allowance.Strictest(s.Agent.Limit, allowed)
	privacy, err := l.privacy(ctx)
	if err != nil {
		return err
	}
	if err := l.rec.Record(ctx, &agent.RunStarted{Limit: limit, Paused: s.Agent.Paused, Privacy: &privacy}); err != nil {
		return err
	}
	return l.payable(l.Models.Info)
}

// payable returns an error if the run has a cost limit and the model's price is
// not known for every kind of token.
func (l *Loop) payable(info model.Info) error {
	if l.rec.Snapshot().Run.Limit.Cost == 0 {
		return nil
	}
	return info.Price.Unpriced(info.ID)
}

// limited returns a context that ends like ctx, or with a *spent at the run's
// time limit.
func (l *Loop) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	if l.rec.Snapshot().Run.Limit.Seconds == 0 {
		return ctx, func() { end(nil) }
	}
	stop := l.rec.WatchClock(func() {
		run := l.rec.Snapshot().Run
		end(&limitError{allowance.Time, run.Used(time.Now()), run.Limit})
	})
	return ctx, func() { stop(); end(nil) }
}

// expire ends a run that has used up a limit or makes no progress, with the
// given status and failure. Its work is committed and pushed as at the end of
// any run, and a follow-up continues the work.
func (l *Loop) expire(ctx context.Context, status agent.Status, f *agent.Failure) error {
	for {
		err := l.keepWork(ctx, status, *f)
		if !errors.Is(err, remote.ErrLost) {
			return err
		}
		if err := l.own.forgetMachine(ctx, err); err != nil {
			return err
		}
	}
}

func (l *Loop) keepWork(ctx context.Context, status agent.Status, f agent.Failure) error {
	s := l.rec.Snapshot()
	if s.Thread.Next() == agent.NextFinish && len(s.Background()) == 0 && !proof.MustCheck(s) && !proof.MustJudge(s) { // the run was about to end anyway
		if err := l.finish(ctx, ctx); err != nil || l.rec.Closed() {
			return err
		}
	}
	if l.own.machine != nil || s.Used { // otherwise there is nothing to commit
		if err := l.own.reach(ctx); err != nil {
			return err
		}
		if err := l.abandon(ctx); err != nil {
			return err
		}
		switch notified, failed, err := l.deliverAll(ctx, true); {
		case err != nil:
			return err
		case notified:
			f.Message += "; its branch was not pushed, because it contains a secret"
		case failed != nil:
			f.Message += "; its branch was not pushed: " + fault.Of(failed).Message
		default:
			if err := l.requests.Propose(ctx); err != nil {
				return err
			}
		}
	}
	return l.wrapUp(ctx, "aborted", &agent.RunEnded{Status: status, Result: l.result(), Failure: &f})
}
