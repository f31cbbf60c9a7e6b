package agent

import (
	"slices"
	"time"

	"aloft/internal/allowance"
)

// Clock is for how long a run has worked. It goes on while no server is there,
// since the machine does too, and stands while a question of the run waits for a
// person or the agent is paused.
type Clock struct {
	Worked time.Duration `json:"worked,omitempty"` // before Since
	Since  time.Time     `json:"since,omitzero"`   // when it began to go; zero while it stands
	Holds  []string      `json:"holds,omitempty"`  // why it stands: ids of approvals, and [pauseHold]
}

// pauseHold is what a [Clock] stands for while the agent is paused.
const pauseHold = "paused"

// Time is for how long the run has worked until now.
func (c Clock) Time(now time.Time) time.Duration {
	if c.Since.IsZero() {
		return c.Worked
	}
	return c.Worked + max(now.Sub(c.Since), 0)
}

// apply folds one event of the run, whose status is as before it.
func (c *Clock) apply(e Event, status Status) {
	switch b := e.Body.(type) {
	case *RunStarted:
		if b.Paused {
			c.hold(pauseHold, e.Time)
		}
		status = Running
	case *Paused:
		c.hold(pauseHold, e.Time)
	case *Resumed:
		c.release(pauseHold)
	case *ApprovalAsked:
		c.hold(b.Approval.ID, e.Time)
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

func (c *Clock) hold(why string, now time.Time) {
	if !slices.Contains(c.Holds, why) {
		c.Holds = append(slices.Clip(c.Holds), why)
	}
	c.stop(now)
}

func (c *Clock) stop(now time.Time) { c.Worked, c.Since = c.Time(now), time.Time{} }

func (c *Clock) release(why string) {
	c.Holds = slices.DeleteFunc(slices.Clone(c.Holds), func(h string) bool { return h == why })
}

// Used is what the run has used of what a limit counts.
func (r *Run) Used(now time.Time) allowance.Amount {
	return allowance.Amount{
		Turns: int64(r.Turns), Tokens: r.Usage.Total(), Cost: r.Usage.Cost, Seconds: int64(r.Clock.Time(now) / time.Second),
	}
}
