package agent

import (
	"slices"
	"time"

	"aloft/internal/allowance"
)

// Clock measures how long a run has worked. It runs even while no server works on the
// run, because the machine still does. It stops while an approval request is pending or
// the agent is paused.
type Clock struct {
	Worked time.Duration `json:"worked,omitempty"` // total before Since
	Since  time.Time     `json:"since,omitzero"`   // when the clock last started; zero while it is stopped
	Holds  []string      `json:"holds,omitempty"`  // why the clock is stopped: approval ids, or [pauseHold]
}

// pauseHold is the entry in [Clock].Holds while the agent is paused.
const pauseHold = "paused"

// Time returns how long the run has worked until now.
func (c Clock) Time(now time.Time) time.Duration {
	if c.Since.IsZero() {
		return c.Worked
	}
	return c.Worked + max(now.Sub(c.Since), 0)
}

// apply folds one event of the run. status is the run's status before the
// event.
func (c *Clock) apply(e Event, status Status) {
	switch b := e.Body.(type) {
	case *RunStarted:
		if b.Paused {
			c.pause(pauseHold, e.Time)
		}
		status = Running
	case *Paused:
		c.pause(pauseHold, e.Time)
	case *Resumed:
		c.release(pauseHold)
	case *ApprovalAsked:
		c.pause(b.Approval.ID, e.Time)
	case *ApprovalAnswered:
		c.release(b.ApprovalID)
	case *RunEnded:
		c.stop(e.Time)
		return
	}
	if status == Running && len(c.Holds) == 0 && c.Since.IsZero() {
		c.Since = e.Time
	}
}

func (c *Clock) pause(why string, now time.Time) {
	if !slices.Contains(c.Holds, why) {
		c.Holds = append(slices.Clip(c.Holds), why)
	}
	c.stop(now)
}

func (c *Clock) stop(now time.Time) { c.Worked, c.Since = c.Time(now), time.Time{} }

func (c *Clock) release(why string) {
	c.Holds = slices.DeleteFunc(slices.Clone(c.Holds), func(h string) bool { return h == why })
}

// Used returns how much the run has used of each limit.
func (r *Run) Used(now time.Time) allowance.Amount {
	return allowance.Amount{
		Turns: int64(r.Turns), Tokens: r.Usage.Total(), Cost: r.Usage.Cost, Seconds: int64(r.Clock.Time(now) / time.Second),
	}
}
