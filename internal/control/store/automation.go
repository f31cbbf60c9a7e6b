package store

import (
	"context"
	"encoding/json"
	"time"
)

// AutomationState is the state of an automation.
type AutomationState string

// States of automations.
const (
	AutomationDraft  AutomationState = "draft"  // only people start it
	AutomationActive AutomationState = "active" // its trigger starts it
	AutomationPaused AutomationState = "paused" // stopped by a person or after failures; Reason says why
)

// Automation starts agents on a schedule, on events, or by hand.
type Automation struct {
	ID        string          `json:"id"`
	UserID    int64           `json:"userId"`    // its agents belong to this user
	CreatedBy int64           `json:"createdBy"` // the user who created it
	Repo      string          `json:"repo"`      // URL of the repository in whose file it is defined; "" if it was created with the API
	Path      string          `json:"path"`      // path of that file
	Commit    string          `json:"commit"`    // commit at which the file was read
	Spec      json.RawMessage `json:"spec"`      // see package automation
	Version   int64           `json:"version"`   // counts the changes of Spec, from 1
	State     AutomationState `json:"state"`
	Reason    string          `json:"reason"` // why it is paused, or ""
	OnEvent   bool            `json:"onEvent"`
	NextAt    time.Time       `json:"nextAt"`   // scheduled time of the next start; zero without a schedule
	DueAt     time.Time       `json:"dueAt"`    // NextAt with jitter; zero unless the schedule is active
	Failures  int             `json:"failures"` // failed starts in a row
	CreatedAt time.Time       `json:"createdAt"`
	UpdatedAt time.Time       `json:"updatedAt"`
}

// StartState is the state of one start of an automation.
type StartState string

// States of starts.
const (
	StartBacklog   StartState = "backlog"   // waits until a person starts it
	StartQueued    StartState = "queued"    // waits for its turn
	StartStarting  StartState = "starting"  // the agent is being created, or exists
	StartRunning   StartState = "running"   // the agent works
	StartSucceeded StartState = "succeeded" // the agent's run has finished
	StartFailed    StartState = "failed"    // Reason says why
	StartSkipped   StartState = "skipped"   // no agent was started; Reason says why
	StartCancelled StartState = "cancelled" // by a person, or by a newer start
)

// StartStates lists all states of starts.
var StartStates = []StartState{StartBacklog, StartQueued, StartStarting, StartRunning, StartSucceeded, StartFailed, StartSkipped, StartCancelled}

// Working reports whether the start has, or may have, a working agent.
func (s StartState) Working() bool { return s == StartStarting || s == StartRunning }

// Ended reports whether the state is final.
func (s StartState) Ended() bool { return s != StartBacklog && s != StartQueued && !s.Working() }

// AutomationStart is one start of an automation. Its ID derives from the
// automation and the cause of the start, so that the same cause never starts an
// agent twice.
type AutomationStart struct {
	ID           string          `json:"id"`
	AutomationID string          `json:"automationId"`
	State        StartState      `json:"state"`
	Reason       string          `json:"reason"`
	Trigger      string          `json:"trigger"` // schedule, event or manual
	EventID      string          `json:"eventId"` // the inbound event that caused it, or ""
	UserID       int64           `json:"userId"`  // the person who started it by hand, or 0
	AgentID      string          `json:"agentId"`
	RunID        string          `json:"runId"`
	Inputs       json.RawMessage `json:"inputs,omitempty"`
	Event        json.RawMessage `json:"event,omitempty"` // what the prompt may say about the event
	Result       string          `json:"result"`          // the agent's last message, shortened
	Cost         int64           `json:"cost"`            // in billionths of a US dollar
	Limit        int64           `json:"limit"`           // the most that it may cost, in the same unit; 0 means unlimited
	ScheduledAt  time.Time       `json:"scheduledAt"`     // zero unless Trigger is schedule
	CreatedAt    time.Time       `json:"createdAt"`
	StartedAt    time.Time       `json:"startedAt"`
	EndedAt      time.Time       `json:"endedAt"`
	DueAt        time.Time       `json:"dueAt"`    // time of the next step; zero in the backlog and at the end
	Attempts     int             `json:"attempts"` // failed steps in a row
}

// AutomationQuery selects the automations to list.
type AutomationQuery struct {
	Page
	UserID int64 // 0 for all users
}

// StartChange is the view of a start in [Automations.ChangeStart].
type StartChange struct {
	Automation *Automation
	Start      *AutomationStart
	Open       []AutomationStart // the automation's other starts that have not ended, oldest first
	// Spent is the cost of the automation's starts that were created since the
	// time that was passed to ChangeStart. A start that has not ended counts
	// with its limit.
	Spent int64
}

// Automations stores automations and their starts. Its methods are safe for
// concurrent use. They return [ErrNotFound] if something does not exist.
type Automations interface {
	// AddAutomation returns [ErrExists] if the id is taken.
	AddAutomation(ctx context.Context, a Automation) error
	Automation(ctx context.Context, id string) (Automation, error)
	// Automations returns automations, newest first.
	Automations(ctx context.Context, q AutomationQuery) ([]Automation, error)
	// EventAutomations returns the active automations that events start.
	EventAutomations(ctx context.Context) ([]Automation, error)
	// RepoAutomations returns the automations that files of a repository
	// define.
	RepoAutomations(ctx context.Context, repo string) ([]Automation, error)
	// DeleteAutomation deletes an automation and its starts. Agents remain.
	DeleteAutomation(ctx context.Context, id string) error
	// ChangeAutomation applies change to an automation, and adds the starts
	// that change returns unless they exist, in one transaction. It ends a
	// claim. change must be quick and must not use the store; it may be called
	// again after a rollback. If it returns an error, nothing changes.
	ChangeAutomation(ctx context.Context, id string, change func(*Automation) ([]AutomationStart, error)) (Automation, error)
	// ClaimAutomations returns at most limit due automations for owner to work
	// on. They become due again after the given time, in case the server dies.
	ClaimAutomations(ctx context.Context, owner string, again time.Duration, limit int) ([]Automation, error)
	// ReleaseAutomations makes the automations and the starts that owner has
	// claimed due again.
	ReleaseAutomations(ctx context.Context, owner string) error

	// AddStart adds a start. It returns false if a start with this id exists.
	AddStart(ctx context.Context, s AutomationStart) (added bool, err error)
	// AutomationStart returns a start.
	AutomationStart(ctx context.Context, id string) (AutomationStart, error)
	// AutomationStarts returns the starts of an automation, newest first.
	AutomationStarts(ctx context.Context, automationID string, p Page) ([]AutomationStart, error)
	// ClaimStarts works like ClaimAutomations.
	ClaimStarts(ctx context.Context, owner string, again time.Duration, limit int) ([]AutomationStart, error)
	// ChangeStart applies change to a start and to its automation in one
	// transaction. It ends a claim of the start. since is for
	// StartChange.Spent. change must be quick and must not use the store; it may
	// be called again after a rollback. If it returns an error, nothing changes.
	ChangeStart(ctx context.Context, id string, since time.Time, change func(*StartChange) error) (AutomationStart, error)

	// TrimStarts deletes the starts that have ended and were created before the
	// time.
	TrimStarts(ctx context.Context, before time.Time) error

	// SetNarrowing stores how an agent is restricted. The first call for an
	// agent counts.
	SetNarrowing(ctx context.Context, agentID string, narrowing json.RawMessage) error
	// Narrowing returns how an agent is restricted, or nil.
	Narrowing(ctx context.Context, agentID string) (json.RawMessage, error)
}
