package automation

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/due"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/redact"
)

// Timing and limits of the work.
const (
	stepWithin  = 2 * time.Minute
	claimedFor  = 5 * time.Minute // longer than a step takes
	atOnce      = 8
	onTime      = 5 * time.Minute // a start that is later than this was missed
	queueWait   = 2 * time.Second // delay between checks whether a queued start may begin
	firstLook   = 2 * time.Second // delay until the first check of a new agent
	longestLook = 30 * time.Second
	maxAttempts = 30 // failed steps in a row, over about a day
	maxResult   = 8 << 10
	keepStarts  = 90 * 24 * time.Hour
	trimEvery   = time.Hour
)

// Store is the part of the store that a [Desk] uses.
type Store interface {
	store.Automations
	Run(ctx context.Context, agentID, runID string) (agent.Run, error)
	PullsOf(ctx context.Context, repo string) ([]store.PullWatch, error)
}

// Start describes an agent to start.
type Start struct {
	AgentID, RunID string
	Name           string // of the agent
	UserID         int64  // the owner
	Prompt         string
	Spec           Spec
	Limit          allowance.Amount
}

// Agents starts and stops agents. Its methods are safe for concurrent use.
// Errors are faults.
type Agents interface {
	// Start starts an agent. If the id is taken, the fault is
	// agent_id_conflict.
	Start(ctx context.Context, s Start) error
	// Cancel cancels a run. It returns nil if the run does not exist or has
	// ended.
	Cancel(ctx context.Context, agentID, runID string) error
}

// Config configures a [Desk]. All fields but Forges, Secrets, Every and Logger
// are required.
type Config struct {
	Store   Store
	Agents  Agents
	Owner   string                         // this server's name
	Forges  forge.Set                      // to read what events are about
	AgentID func(words ...string) string   // a reserved agent id for the words
	Secrets func(string) map[string]string // must not appear in prompts; nil means none
	Every   time.Duration                  // interval of looking for due work; default a second
	Logger  *slog.Logger
}

// Desk starts automations and follows their starts. Its methods are safe for
// concurrent use.
type Desk struct {
	Config
	schedules *due.Worker[store.Automation]
	starts    *due.Worker[store.AutomationStart]
	now       func() time.Time
	trimmed   time.Time // used only by the worker of starts

	mu      sync.Mutex
	filters map[string]filter // by id of the automation
}

// filter is the compiled filter of one version of an automation.
type filter struct {
	version    int64
	expression expression
}

// New returns a desk. Run starts the work.
func New(c Config) *Desk {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Desk{Config: c, now: time.Now, filters: map[string]filter{}}
	failed := func(err error) { c.Logger.Error("cannot read the due automations", "error", err) }
	d.schedules = due.New(due.Config[store.Automation]{
		Claim: func(ctx context.Context, limit int) ([]store.Automation, error) {
			return c.Store.ClaimAutomations(ctx, c.Owner, claimedFor, limit)
		},
		Release: func(ctx context.Context) error { return c.Store.ReleaseAutomations(ctx, c.Owner) },
		Attempt: d.fire, AtOnce: atOnce, Every: c.Every, Failed: failed,
	})
	d.starts = due.New(due.Config[store.AutomationStart]{
		Claim: func(ctx context.Context, limit int) ([]store.AutomationStart, error) {
			return c.Store.ClaimStarts(ctx, c.Owner, claimedFor, limit)
		},
		Release: func(ctx context.Context) error { return c.Store.ReleaseAutomations(ctx, c.Owner) },
		Attempt: d.attempt, Tend: d.trim, AtOnce: atOnce, Every: c.Every, Failed: failed,
	})
	return d
}

// Run works until ctx ends. Work that this server had claimed when it died is
// due at once.
func (d *Desk) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { d.schedules.Run(ctx) })
	d.starts.Run(ctx)
	return nil
}

// trim removes old starts from time to time.
func (d *Desk) trim(ctx context.Context) error {
	if now := d.now(); now.Sub(d.trimmed) > trimEvery {
		d.trimmed = now
		return d.Store.TrimStarts(ctx, now.Add(-keepStarts))
	}
	return nil
}

// Plan sets when the automation's trigger starts it next, as its spec says. Call
// it after a change of the spec or the state, before the automation is stored.
func Plan(a *store.Automation, s Spec, now time.Time) error {
	a.OnEvent, a.NextAt, a.DueAt = s.On.Event != nil, time.Time{}, time.Time{}
	if s.On.Schedule == nil || a.State != store.AutomationActive {
		return nil
	}
	return s.On.Schedule.plan(a, now)
}

// plan sets the next time of the schedule after the given time.
func (c Schedule) plan(a *store.Automation, after time.Time) error {
	cron, err := ParseCron(c.Cron)
	if err != nil {
		return err
	}
	at, err := c.location()
	if err != nil {
		return err
	}
	a.NextAt, a.DueAt = time.Time{}, time.Time{}
	if next, ok := cron.Next(after.In(at)); ok {
		a.NextAt, a.DueAt = next.UTC(), next.UTC().Add(c.delay(a.ID, next))
	}
	return nil
}

// delay returns the jitter of one scheduled time: a random duration that is the
// same on every server.
func (c Schedule) delay(id string, at time.Time) time.Duration {
	most, err := c.jitter()
	if err != nil || most == 0 {
		return 0
	}
	sum := derived("jitter", id, at.UTC().Format(time.RFC3339))
	var n uint64
	for _, b := range sum[8:] {
		n = n<<8 | uint64(b)
	}
	return time.Duration(n % uint64(most))
}

// fire starts an automation whose scheduled time has come, and plans the next
// time. Both are one write.
func (d *Desk) fire(ctx context.Context, claimed store.Automation) {
	err := fault.Contain(func() error {
		s, err := Decode(claimed.Spec)
		if err != nil || s.On.Schedule == nil {
			return errors.Join(err, d.unplan(ctx, claimed))
		}
		at, onTime, err := d.latest(*s.On.Schedule, claimed)
		if err != nil {
			return err
		}
		start := d.newStart(claimed, TriggerSchedule, at.UTC().Format(time.RFC3339))
		start.ScheduledAt = at.UTC()
		if !onTime && s.On.Schedule.Missed != CatchUp {
			start.State, start.EndedAt, start.DueAt = store.StartSkipped, start.CreatedAt, time.Time{}
			start.Reason = "no server was running at the scheduled time"
		}
		_, err = d.Store.ChangeAutomation(ctx, claimed.ID, func(a *store.Automation) ([]store.AutomationStart, error) {
			if a.State != store.AutomationActive || !a.NextAt.Equal(claimed.NextAt) || a.Version != claimed.Version {
				return nil, nil // it was changed, or another server has done this
			}
			return []store.AutomationStart{start}, s.On.Schedule.plan(a, at)
		})
		return err
	})
	if err == nil {
		d.starts.Wake()
	} else if ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
		d.Logger.Error("cannot start an automation on its schedule; the server will try again", "automation", claimed.ID, "error", err)
	}
}

// unplan removes the time of an automation that has no schedule.
func (d *Desk) unplan(ctx context.Context, claimed store.Automation) error {
	_, err := d.Store.ChangeAutomation(ctx, claimed.ID, func(a *store.Automation) ([]store.AutomationStart, error) {
		if a.Version == claimed.Version {
			a.NextAt, a.DueAt = time.Time{}, time.Time{}
		}
		return nil, nil
	})
	return err
}

// latest returns the last scheduled time that has come, and whether a start for
// it is on time. Earlier times were missed.
func (d *Desk) latest(c Schedule, a store.Automation) (at time.Time, isOnTime bool, err error) {
	now, at := d.now(), a.NextAt
	if now.Sub(a.DueAt) <= onTime {
		return at, true, nil
	}
	cron, err := ParseCron(c.Cron)
	if err != nil {
		return at, false, err
	}
	zone, err := c.location()
	if err != nil {
		return at, false, err
	}
	// A schedule with many times has one in the last two days. Otherwise there
	// are few since the first.
	for _, from := range []time.Time{now.Add(-48 * time.Hour), at} {
		if from.Before(at) {
			continue
		}
		for next, ok := cron.Next(from.In(zone)); ok && !next.After(now); next, ok = cron.Next(next) {
			at = next
		}
		if at.After(a.NextAt) {
			break
		}
	}
	return at, now.Sub(at.Add(c.delay(a.ID, at))) <= onTime, nil
}

// newStart returns a queued start of the automation. cause identifies it among
// the starts of the trigger.
func (d *Desk) newStart(a store.Automation, trigger, cause string) store.AutomationStart {
	id := StartID(a.ID, trigger, cause)
	agentID := d.AgentID("automation", id)
	now := d.now().UTC()
	return store.AutomationStart{
		ID: id, AutomationID: a.ID, State: store.StartQueued, Trigger: trigger, AgentID: agentID, RunID: runOf(agentID), CreatedAt: now, DueAt: now,
	}
}

// runOf returns the id of the first run of an agent that an automation starts.
func runOf(agentID string) string { return "run-" + agentID[len("bc-"):] }

// Values of [store.AutomationStart.Trigger].
const (
	TriggerSchedule = "schedule"
	TriggerEvent    = "event"
	TriggerManual   = "manual"
)

// ByHand starts an automation on behalf of a person, or adds a start to the
// backlog. cause identifies the request: a repeated request has no effect and
// returns the first start. The error is a fault unless the store fails.
func (d *Desk) ByHand(ctx context.Context, a store.Automation, userID int64, cause string, inputs json.RawMessage, later bool) (store.AutomationStart, error) {
	s, err := Decode(a.Spec)
	if err != nil {
		return store.AutomationStart{}, err
	}
	if _, err := s.complete(inputs); err != nil {
		return store.AutomationStart{}, err
	}
	return d.add(ctx, a, cause, func(of *store.AutomationStart) {
		if of.UserID, of.Inputs = userID, inputs; later {
			of.State, of.DueAt = store.StartBacklog, time.Time{}
		}
	})
}

// add adds a manual start.
func (d *Desk) add(ctx context.Context, a store.Automation, cause string, set func(*store.AutomationStart)) (store.AutomationStart, error) {
	of := d.newStart(a, TriggerManual, cause)
	set(&of)
	added, err := d.Store.AddStart(ctx, of)
	if err != nil {
		return of, err
	}
	d.starts.Wake()
	if !added {
		return d.Store.AutomationStart(ctx, of.ID)
	}
	return of, nil
}

// Promote moves a start from the backlog to the queue. The error is a fault
// unless the store fails.
func (d *Desk) Promote(ctx context.Context, id string) (store.AutomationStart, error) {
	of, err := d.Store.ChangeStart(ctx, id, time.Time{}, func(c *store.StartChange) error {
		if c.Start.State != store.StartBacklog {
			return fault.Conflict("the start is %s, not in the backlog", c.Start.State).Named("start_not_in_backlog")
		}
		c.Start.State, c.Start.DueAt = store.StartQueued, d.now().UTC()
		return nil
	})
	d.starts.Wake()
	return of, err
}

// Stop cancels a start. If its agent works, Stop cancels the agent's run. The
// error is a fault unless the store fails.
func (d *Desk) Stop(ctx context.Context, id string) (store.AutomationStart, error) {
	working := false
	of, err := d.Store.ChangeStart(ctx, id, time.Time{}, func(c *store.StartChange) error {
		switch working = c.Start.State.Working(); {
		case c.Start.State.Ended():
			return fault.Conflict("the start has ended: %s", c.Start.State).Named("start_ended")
		case working:
			c.Start.DueAt = d.now().UTC()
		default:
			d.end(c, store.StartCancelled, "cancelled by a person")
		}
		return nil
	})
	if err == nil && working {
		err = d.Agents.Cancel(ctx, of.AgentID, of.RunID)
	}
	d.starts.Wake()
	return of, err
}

// clean removes the server's secrets from a prompt.
func (d *Desk) clean(text string) string {
	if d.Secrets == nil {
		return text
	}
	return redact.New(d.Secrets("")).String(text)
}
