// Package store defines what the server stores and with which guarantees. The
// packages below it implement it for databases; storetest tests them against
// these definitions.
package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"aloft/internal/agent"
	"aloft/internal/secret"
)

// Errors that callers check for. They are always wrapped.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("already exists")
	ErrMoved     = errors.New("the journal has newer events")  // Append.IfHead did not match
	ErrLeaseLost = errors.New("another owner holds the lease") // Append.Owner does not hold the lease
	ErrFull      = errors.New("cannot write to the store")     // disk full or read-only; nothing was written
	// ErrUnreachable means that a remote database does not respond. Nothing was
	// written.
	ErrUnreachable = errors.New("the store is unreachable")
	// ErrUnknown means that the acknowledgement of a write was lost. The data
	// may have been written.
	ErrUnknown   = errors.New("it is unknown whether the write succeeded")
	ErrClosed    = errors.New("the store is closed")
	ErrLastOwner = errors.New("the server would have no owner")
	ErrBodyGone  = errors.New("the body is no longer stored")
)

// Store is everything that a database implements. Callers declare interfaces
// with the parts that they use.
type Store interface {
	Journal
	Agents
	Leases
	Accounts
	Members
	SignIns
	AuditLog
	Usage
	Sizes
	Builds
	Environments
	Snapshots
	Rules
	Secrets
	Deliveries
	Replies
	Inbox
	PullWatches
	Topics
	Memories
	Automations
}

// A Journal stores the events of every agent. Its methods are safe for
// concurrent use.
type Journal interface {
	// Append numbers the events, writes them atomically, and applies them to
	// the agent and run that [Agents] returns. When it returns nil, they are on
	// disk. On an error none of them was written, unless the error wraps
	// [ErrUnknown]. The returned events have their numbers and times.
	Append(ctx context.Context, a Append) ([]agent.Event, error)
	// Read returns at most limit events of the agent after the number, in
	// order. For an agent that does not exist, it returns none.
	Read(ctx context.Context, agentID string, after int64, limit int) ([]agent.Event, error)
	// Wait returns nil once the agent has an event after the number, and
	// ErrNotFound once the agent was deleted.
	Wait(ctx context.Context, agentID string, after int64) error
}

// Append is the argument of [Journal.Append].
type Append struct {
	AgentID string
	Events  []agent.Event // the store sets Seq, and Time if it is zero
	// IfHead, if not nil, is the number of the last event that the caller has
	// seen. If the journal has later events, the error wraps [ErrMoved]. 0
	// creates the agent; if it exists, the error wraps [ErrExists].
	IfHead *int64
	// Owner, if not empty, must hold the lease on the agent, or the error wraps
	// [ErrLeaseLost].
	Owner string
	// Secrets are stored with a new agent, and deleted with it.
	Secrets []secret.Sealed
}

// Agents queries agents and runs without reading journals. Its methods are safe
// for concurrent use. They return [ErrNotFound] if something does not exist.
type Agents interface {
	Agent(ctx context.Context, id string) (agent.Agent, error)
	// ListAgents returns the agents that match the query, in its order.
	ListAgents(ctx context.Context, q AgentQuery) ([]agent.Agent, error)
	// WaitingAgents returns at most limit agents of a user with pending
	// approvals, oldest first.
	WaitingAgents(ctx context.Context, userID int64, limit int) ([]agent.Agent, error)
	// Held counts the agents, secrets and other objects that belong to a user.
	Held(ctx context.Context, userID int64) (Held, error)
	// AwaitLayer reports whether an agent's first machine has yet to start from
	// the saved disk.
	AwaitLayer(ctx context.Context, layer string) (bool, error)
	// DeleteAgent deletes the agent with its runs, secrets and journal.
	DeleteAgent(ctx context.Context, id string) error
	Run(ctx context.Context, agentID, runID string) (agent.Run, error)
	// ListRuns returns the agent's runs, newest first.
	ListRuns(ctx context.Context, agentID string, q Page) ([]agent.Run, error)
	// OpenRuns returns all runs that have not ended, oldest first.
	OpenRuns(ctx context.Context) ([]agent.Run, error)
}

// Held counts the agents, secrets and other objects that belong to a user.
type Held struct {
	Agents    int // including archived ones
	Running   int // runs that have not ended, each of which uses a machine
	Snapshots int
}

// Page selects part of a list. The key of an element is its creation time and
// id.
type Page struct {
	Limit      int
	BeforeTime time.Time // the page begins after this key; zero for the first page
	BeforeID   string
}

// AgentQuery selects the agents to list.
type AgentQuery struct {
	Page
	UserID          int64 // 0 for all users
	IncludeArchived bool
	AgentFilter
	AsksFirst *AsksFirst // nil lists all agents newest first
}

// AsksFirst lists the agents with a pending approval before all others, both
// groups newest first. The time At must be the same for all pages, so that no
// agent is skipped. An agent whose request is later than At stays in the second
// group. An agent whose request is answered between two pages may appear in
// both groups.
type AsksFirst struct {
	At   time.Time // the first group contains the agents with requests until this time
	Past bool      // whether the page's key belongs to an agent in the second group
}

// AgentFilter restricts a list of agents. Zero fields do not restrict it.
type AgentFilter struct {
	Search      string // each word must be in the id, name, model, repositories or pull requests, ignoring case
	Repository  string // a URL, or the end of a URL: owner/name
	PullRequest string // URL of a pull request from which the agent started, or which it has opened
	From, To    time.Time
	// Statuses lists the statuses to include. A failure needs attention only if
	// the agent's last event is not before NewsSince.
	Statuses  []ListStatus
	NewsSince time.Time
}

// IsZero reports whether the filter is empty.
func (f AgentFilter) IsZero() bool {
	return f.Search == "" && f.Repository == "" && f.PullRequest == "" && f.From.IsZero() && f.To.IsZero() && len(f.Statuses) == 0
}

// A ListStatus is an agent's status as a person sees it in lists.
type ListStatus string

// List statuses. An archived agent has only the status Archived.
const (
	Asks     ListStatus = "asks"      // the agent has a pending request
	NeedsYou ListStatus = "needs-you" // the agent has a pending request, or failed recently
	Working  ListStatus = "working"
	Finished ListStatus = "finished"
	Failed   ListStatus = "failed" // failed or ran out of time
	Stopped  ListStatus = "stopped"
	Archived ListStatus = "archived"
)

// ListStatuses lists all statuses.
var ListStatuses = []ListStatus{Asks, NeedsYou, Working, Finished, Failed, Stopped, Archived}

// Leases gives one server at a time the exclusive right to a name. Its methods
// are safe for concurrent use.
type Leases interface {
	// Acquire takes or renews the lease on name for owner. It returns false if
	// another owner holds a lease that has not expired.
	Acquire(ctx context.Context, name, owner string, ttl time.Duration) (bool, error)
	// Release ends owner's lease on name. It does nothing if owner does not
	// hold the lease.
	Release(ctx context.Context, name, owner string) error
}

// Rules stores the files that users and the team configure for their agents,
// such as permissions.json, sandbox.json and hooks.json. Its methods are safe
// for concurrent use.
type Rules interface {
	// Rule returns the text of the owner's file, or "" if there is none.
	Rule(ctx context.Context, owner, name string) (string, error)
	SetRule(ctx context.Context, owner, name, text string) error
}

// TeamRules is the owner of the team's rules.
const TeamRules = "team"

// RulesOf returns the owner name for a user's rules.
func RulesOf(userID int64) string { return "user/" + strconv.FormatInt(userID, 10) }

// Times of the leases on agents. Another server takes over an agent if its
// lease was not renewed for LeaseTTL.
const (
	LeaseTTL   = 30 * time.Second
	LeaseRenew = LeaseTTL / 3
)

// LeaseOn returns the name of the lease on an agent.
func LeaseOn(agentID string) string { return "agent/" + agentID }
