package pull

import (
	"cmp"
	"context"
	"slices"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
)

// Intervals of polling a forge while an agent waits. An hour of waiting costs
// at most a few hundred of the 5,000 requests that GitHub allows a token.
const (
	firstPoll   = 10 * time.Second
	longestPoll = time.Minute
	// emptyPolls is how often a forge is polled for checks that do not appear:
	// for about a minute and a half.
	emptyPolls = 4
)

// Wait repeats the question until the given time. It returns earlier when a
// check has failed or all have ended (Checks), or when there is a reply
// (Replies). It waits longer between two requests if the forge asks for it.
func (d *Desk) Wait(ctx context.Context, a agent.Agent, p agent.PullRequest, q Question, until time.Time) (Answer, error) {
	every := cmp.Or(d.Poll, firstPoll)
	longest := max(longestPoll, every)
	var last Answer
	for w := (waiter{}); ; every = min(every*3/2, longest) {
		out, err := d.read(ctx, a, p, q)
		wait := every
		switch {
		case err == nil && w.over(q, out):
			return out, nil
		case err == nil:
			last = out
		case ctx.Err() != nil:
			return Answer{}, context.Cause(ctx)
		case !forge.Retryable(err):
			return Answer{}, err
		default:
			if asks, ok := forge.RetryAfter(err); ok {
				wait = max(wait, asks)
			}
		}
		left := time.Until(until)
		if left <= 0 {
			if last.Text == "" && err != nil {
				return Answer{}, err
			}
			last.TimedOut, last.Text = true, "The wait has timed out. "+last.Text
			return last, nil
		}
		t := time.NewTimer(min(wait, left))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return Answer{}, context.Cause(ctx)
		}
	}
}

// waiter decides when a wait is over.
type waiter struct {
	empty    int // number of answers without checks
	complete int // number of consecutive answers in which all checks had ended
}

func (w *waiter) over(q Question, out Answer) bool {
	if q.Subject != Checks {
		return len(out.Remarks) > 0
	}
	if len(out.Checks) == 0 {
		w.empty++
		return w.empty > emptyPolls
	}
	for _, c := range out.Checks {
		if c.State == string(forge.Failure) {
			return true
		}
	}
	if slices.ContainsFunc(out.Checks, func(c Check) bool { return c.State == string(forge.Pending) }) {
		w.complete = 0
		return false
	}
	// A job that depends on another appears only after the other has ended. So
	// the checks have ended only if two polls in a row say so.
	w.complete++
	return w.complete > 1
}
