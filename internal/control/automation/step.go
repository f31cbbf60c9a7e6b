package automation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/due"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// errMoved says that the start is no longer in the state in which the step
// began.
var errMoved = errors.New("the start has changed meanwhile")

// attempt takes steps of a start until it must wait.
func (d *Desk) attempt(ctx context.Context, of store.AutomationStart) {
	for more := true; more; {
		state := of.State
		err := fault.Contain(func() (err error) {
			within, cancel := context.WithTimeout(ctx, stepWithin)
			defer cancel()
			of, more, err = d.step(within, of)
			return err
		})
		if err != nil {
			d.failed(ctx, of, err)
			return
		}
		if of.State != state {
			d.Logger.Info("automation", "automation", of.AutomationID, "start", of.ID, "state", of.State, "agent", of.AgentID, "reason", of.Reason)
		}
	}
}

// failed records a failed step, which is repeated later.
func (d *Desk) failed(ctx context.Context, of store.AutomationStart, cause error) {
	if ctx.Err() != nil || errors.Is(cause, errMoved) || errors.Is(cause, store.ErrNotFound) {
		return // at the end of the claim, the step is repeated
	}
	d.Logger.Warn("cannot work on the start of an automation", "automation", of.AutomationID, "start", of.ID, "attempt", of.Attempts+1, "error", cause)
	_, err := d.Store.ChangeStart(ctx, of.ID, time.Time{}, func(c *store.StartChange) error {
		if c.Start.State != of.State {
			return errMoved
		}
		c.Start.Attempts++
		wait, problem := due.Retry(c.Start.Attempts, cause)
		if c.Start.Reason = problem; c.Start.Attempts >= maxAttempts {
			d.end(c, store.StartFailed, problem)
			return nil
		}
		c.Start.DueAt = d.now().UTC().Add(wait)
		return nil
	})
	if err != nil && !errors.Is(err, errMoved) {
		d.Logger.Error("cannot record the start of an automation; the step will be repeated", "start", of.ID, "error", err)
	}
}

// step takes the next step of a start and records it. more reports whether the
// following step is due at once.
func (d *Desk) step(ctx context.Context, of store.AutomationStart) (next store.AutomationStart, more bool, err error) {
	switch of.State {
	case store.StartQueued:
		return d.begin(ctx, of)
	case store.StartStarting:
		return d.launch(ctx, of)
	case store.StartRunning:
		next, err = d.look(ctx, of)
		return next, false, err
	}
	return of, false, nil
}

// begin decides whether a queued start may begin now.
func (d *Desk) begin(ctx context.Context, of store.AutomationStart) (next store.AutomationStart, more bool, err error) {
	now := d.now().UTC()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	var replaced []store.AutomationStart
	next, err = d.Store.ChangeStart(ctx, of.ID, month, func(c *store.StartChange) error {
		replaced = nil
		if c.Start.State != store.StartQueued {
			return errMoved
		}
		s, err := Decode(c.Automation.Spec)
		if err != nil {
			return err
		}
		if c.Start.Attempts, c.Start.Reason = 0, ""; c.Start.Trigger != TriggerManual && c.Automation.State != store.AutomationActive {
			d.end(c, store.StartSkipped, fmt.Sprintf("the automation is not active: it is %s", c.Automation.State))
			return nil
		}
		var wait bool
		if wait, replaced = d.turn(c, s); wait || c.Start.State.Ended() {
			return nil
		}
		limit := s.limit()
		if monthly := s.monthly(); monthly > 0 {
			left := monthly - c.Spent
			if left <= 0 {
				d.end(c, store.StartSkipped, fmt.Sprintf("the budget of this month is spent: %s", allowance.Amount{Cost: monthly}.Text(allowance.Cost)))
				return nil
			}
			limit = allowance.Strictest(limit, allowance.Amount{Cost: left})
		}
		c.Start.State, c.Start.StartedAt, c.Start.DueAt, c.Start.Limit = store.StartStarting, now, now, limit.Cost
		return nil
	})
	if err != nil {
		return of, false, err
	}
	for _, other := range replaced {
		if err := d.Agents.Cancel(ctx, other.AgentID, other.RunID); err != nil {
			return next, false, err
		}
	}
	return next, next.State == store.StartStarting, nil
}

// turn applies the automation's concurrency to a queued start: it waits, it is
// skipped, or it begins. replaced are the starts whose runs to cancel before it
// begins.
func (d *Desk) turn(c *store.StartChange, s Spec) (wait bool, replaced []store.AutomationStart) {
	var earlier, later, working []store.AutomationStart
	for _, other := range c.Open {
		switch {
		case other.State.Working():
			working = append(working, other)
			if isBefore(*c.Start, other) {
				later = append(later, other)
			}
		case isBefore(other, *c.Start):
			earlier = append(earlier, other)
		default:
			later = append(later, other)
		}
	}
	busy := slices.Concat(working, earlier)
	switch {
	case s.Concurrency == Replace && len(later) > 0:
		d.end(c, store.StartSkipped, "a newer start replaces it")
	case s.Concurrency == Replace:
		replaced = working
		wait = len(working) > 0
	case len(busy) == 0:
	case s.Concurrency == Queue && len(earlier) >= maxQueued:
		d.end(c, store.StartSkipped, fmt.Sprintf("%d starts are queued, which is the limit", maxQueued))
	case s.Concurrency == Queue:
		wait = true
	default:
		d.end(c, store.StartSkipped, fmt.Sprintf("the start %s still works", busy[0].ID))
	}
	if wait {
		c.Start.DueAt = d.now().UTC().Add(queueWait * time.Duration(1+min(len(earlier), 10)))
	}
	return wait, replaced
}

// isBefore reports whether a was created before b.
func isBefore(a, b store.AutomationStart) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) {
		return a.CreatedAt.Before(b.CreatedAt)
	}
	return a.ID < b.ID
}

// launch starts the agent, unless an earlier attempt has started it.
func (d *Desk) launch(ctx context.Context, of store.AutomationStart) (next store.AutomationStart, more bool, err error) {
	refused := d.startAgent(ctx, of)
	if refused != nil && !final(refused) {
		return of, false, refused
	}
	next, err = d.Store.ChangeStart(ctx, of.ID, time.Time{}, func(c *store.StartChange) error {
		if c.Start.State != store.StartStarting {
			return errMoved
		}
		if c.Start.Attempts, c.Start.Reason = 0, ""; refused != nil {
			d.end(c, store.StartFailed, sentence(refused))
			return nil //nolint:nilerr // the failure is recorded
		}
		c.Start.State, c.Start.DueAt = store.StartRunning, d.now().UTC().Add(firstLook)
		return nil
	})
	if err != nil {
		return of, false, err
	}
	return next, false, nil
}

func (d *Desk) startAgent(ctx context.Context, of store.AutomationStart) error {
	a, err := d.Store.Automation(ctx, of.AutomationID)
	if err != nil {
		return err
	}
	s, err := Decode(a.Spec)
	if err != nil {
		return err
	}
	var earlier []store.AutomationStart
	if s.Memory > 0 {
		if earlier, err = d.Store.AutomationStarts(ctx, a.ID, store.Page{Limit: 10 * maxMemory}); err != nil {
			return err
		}
	}
	prompt, err := s.prompt(ctx, of, earlier)
	if err != nil {
		return err
	}
	if n := s.narrowing(); n != nil {
		data, err := json.Marshal(n)
		if err != nil {
			return err
		}
		if err := d.Store.SetNarrowing(ctx, of.AgentID, data); err != nil {
			return err
		}
	}
	limit := s.limit()
	limit.Cost = of.Limit
	err = d.Agents.Start(ctx, Start{AgentID: of.AgentID, RunID: of.RunID, Name: forge.Cut(s.Name, 100), UserID: a.UserID, Prompt: d.clean(prompt), Spec: s, Limit: limit})
	if fault.Of(err).Code == "agent_id_conflict" {
		return nil
	}
	return err
}

// look checks whether the agent's run has ended.
func (d *Desk) look(ctx context.Context, of store.AutomationStart) (store.AutomationStart, error) {
	run, err := d.Store.Run(ctx, of.AgentID, of.RunID)
	gone := errors.Is(err, store.ErrNotFound)
	if err != nil && !gone {
		return of, err
	}
	return d.Store.ChangeStart(ctx, of.ID, time.Time{}, func(c *store.StartChange) error {
		if c.Start.State != store.StartRunning {
			return errMoved
		}
		c.Start.Attempts = 0
		switch {
		case gone:
			d.end(c, store.StartCancelled, "the agent was deleted")
		case !run.Status.Ended():
			since := d.now().Sub(c.Start.StartedAt)
			c.Start.DueAt = d.now().UTC().Add(min(max(firstLook, since/10), longestLook))
		default:
			c.Start.Result, c.Start.Cost = forge.Cut(run.Result, maxResult), run.Usage.Cost
			state, why := outcome(run)
			d.end(c, state, why)
		}
		return nil
	})
}

// outcome returns how a start ends whose run has ended.
func outcome(run agent.Run) (state store.StartState, why string) {
	switch run.Status {
	case agent.Finished:
		return store.StartSucceeded, ""
	case agent.Cancelled:
		return store.StartCancelled, "the run was cancelled"
	}
	if why = "the run ended with the status " + string(run.Status); run.Failure != nil {
		why = run.Failure.Message
	}
	return store.StartFailed, why
}

// end ends a start, and pauses the automation after too many failures.
func (d *Desk) end(c *store.StartChange, state store.StartState, why string) {
	c.Start.State, c.Start.Reason = state, forge.Cut(why, 500)
	c.Start.EndedAt, c.Start.DueAt = d.now().UTC(), time.Time{}
	switch state {
	case store.StartSucceeded:
		c.Automation.Failures = 0
	case store.StartFailed:
		c.Automation.Failures++
		s, err := Decode(c.Automation.Spec)
		if most := s.pauseAfter(); err == nil && most > 0 && c.Automation.Failures >= most && c.Automation.State == store.AutomationActive {
			c.Automation.State = store.AutomationPaused
			c.Automation.Reason = fmt.Sprintf("%d starts in a row have failed; the last: %s", c.Automation.Failures, c.Start.Reason)
		}
	}
}

// final reports whether a retry would fail in the same way.
func final(err error) bool {
	switch fault.Of(err).Kind {
	case fault.KindInternal, fault.KindUnavailable, fault.KindExhausted:
		return false
	}
	return true
}

// sentence returns a fault in words for people.
func sentence(err error) string {
	f := fault.Of(err)
	text := strings.TrimSpace(f.Field + " " + f.Message)
	if f.Advice != "" {
		text += " (" + f.Advice + ")"
	}
	return text
}
