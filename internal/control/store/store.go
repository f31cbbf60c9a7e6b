// Package store says what the server remembers, and how surely. The databases
// are packages below this one; storetest holds them to these words.
package store

import (
	"context"
	"errors"
	"strconv"
	"time"

	"aloft/internal/agent"
	"aloft/internal/secret"
)

// Errors that callers branch on; they are always wrapped.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("exists already")
	ErrMoved     = errors.New("the journal has moved on")    // Append.IfHead did not hold
	ErrLeaseLost = errors.New("the lease is another's")      // Append.Owner did not hold
	ErrFull      = errors.New("the store cannot be written") // disk full, read-only; nothing was kept
	// ErrUnreachable is of a database on another host that does not answer;
	// nothing was kept.
	ErrUnreachable = errors.New("the store does not answer")
	// ErrUnknown is of a write whose acknowledgement was lost: it may be kept.
	ErrUnknown   = errors.New("it is not known whether it was written")
	ErrClosed    = errors.New("the store is closed")
	ErrLastOwner = errors.New("nobody else owns the server")
)

// A Journal keeps the events of every agent. Its methods are safe for
// concurrent use.
type Journal interface {
	// Append numbers the events, writes them as one, and folds them into the
	// agent and its run as [Agents] returns them. When it returns nil they are on
	// disk. On an error none of them is, unless it
	// wraps [ErrUnknown]. The events returned bear their numbers
	// and times.
	Append(ctx context.Context, a Append) ([]agent.Event, error)
	// Read returns at most limit events of the agent after the number, in order.
	// An agent that does not exist has none.
	Read(ctx context.Context, agentID string, after int64, limit int) ([]agent.Event, error)
	// Wait returns nil once the agent has an event after the number, and
	// ErrNotFound once the agent is gone.
	Wait(ctx context.Context, agentID string, after int64) error
}

// Append is what [Journal.Append] writes.
type Append struct {
	AgentID string
	Events  []agent.Event // Seq is given by the store, and Time where it is zero
	// IfHead, unless nil, is the number of the last event that the caller knows
	// of. If it is another the error wraps [ErrMoved]. 0 makes the agent; one
	// that exists is [ErrExists].
	IfHead *int64
	// Owner, unless empty, must hold the lease on the agent; else [ErrLeaseLost].
	Owner string
	// Secrets are kept with the agent that this makes, and gone with it.
	Secrets []secret.Sealed
}

// Agents answers questions about agents and runs without reading journals. Its
// methods are safe for concurrent use. What is not there is [ErrNotFound].
type Agents interface {
	Agent(ctx context.Context, id string) (agent.Agent, error)
	// ListAgents returns agents in the order of the query.
	ListAgents(ctx context.Context, q AgentQuery) ([]agent.Agent, error)
	// WaitingAgents returns at most limit agents of a user that wait for a person,
	// the oldest first.
	WaitingAgents(ctx context.Context, userID int64, limit int) ([]agent.Agent, error)
	// AwaitLayer reports whether an agent's first machine is yet to begin with the
	// saved disk.
	AwaitLayer(ctx context.Context, layer string) (bool, error)
	// DeleteAgent removes the agent, its runs, its secrets and its journal.
	DeleteAgent(ctx context.Context, id string) error
	Run(ctx context.Context, agentID, runID string) (agent.Run, error)
	// ListRuns returns the agent's runs, newest first.
	ListRuns(ctx context.Context, agentID string, q Page) ([]agent.Run, error)
	// OpenRuns returns every run that has not ended, oldest first.
	OpenRuns(ctx context.Context) ([]agent.Run, error)
}

// Page is a part of a list. The key of an element is its time of creation and its id.
type Page struct {
	Limit      int
	BeforeTime time.Time // only what comes after this key in the list; zero for the first page
	BeforeID   string
}

// AgentQuery says which agents to list.
type AgentQuery struct {
	Page
	UserID          int64 // 0 for everybody's
	IncludeArchived bool
	AgentFilter
	AsksFirst *AsksFirst // nil lists all of them newest first
}

// AsksFirst lists the agents that wait for an answer before all others, each
// part newest first. The moment At stays the same from page to page, so that no
// agent is missed: one that asks after At stays in the second part, and one
// that is answered between two pages may be listed in both.
type AsksFirst struct {
	At   time.Time // agents whose question was asked by then are in the first part
	Past bool      // the page's key is of an agent in the second part
}

// AgentFilter narrows a list of agents; what is zero narrows nothing.
type AgentFilter struct {
	Search      string // every word of it is in the id, name, model, repositories or pull requests, in whatever case
	Repository  string // an address, or how one ends: owner/name
	PullRequest string // the address of one that the agent was started on, or has opened
	From, To    time.Time
	// Standings has how the agent stands. A failure is news, and needs a person,
	// if nothing has come after it since NewsSince.
	Statuses  []ListStatus
	NewsSince time.Time
}

// IsZero reports whether the filter narrows nothing.
func (f AgentFilter) IsZero() bool {
	return f.Search == "" && f.Repository == "" && f.PullRequest == "" && f.From.IsZero() && f.To.IsZero() && len(f.Statuses) == 0
}

// A ListStatus is how an agent stands, as a person sees it.
type ListStatus string

// Standings. Only Archived agents are filed away, whatever else they are.
const (
	Asks     ListStatus = "asks"      // it waits for an answer
	NeedsYou ListStatus = "needs-you" // it waits for an answer, or has failed of late
	Working  ListStatus = "working"
	Finished ListStatus = "finished"
	Failed   ListStatus = "failed" // also where its time was up
	Stopped  ListStatus = "stopped"
	Archived ListStatus = "archived"
)

// ListStatuses are all of them.
var ListStatuses = []ListStatus{Asks, NeedsYou, Working, Finished, Failed, Stopped, Archived}

// Leases let one server at a time own a thing. Its methods are safe for
// concurrent use.
type Leases interface {
	// Acquire takes or renews the lease on name for owner, unless another holds
	// it and it has not lapsed: then it returns false.
	Acquire(ctx context.Context, name, owner string, ttl time.Duration) (bool, error)
	// Release gives the lease up; one that is not owner's is left alone.
	Release(ctx context.Context, name, owner string) error
}

// Rules keeps the files that people and the team have set for their agents:
// permissions.json, sandbox.json, hooks.json. Its methods are safe for
// concurrent use.
type Rules interface {
	// Rule returns the text of the owner's file, "" if there is none.
	Rule(ctx context.Context, owner, name string) (string, error)
	SetRule(ctx context.Context, owner, name, text string) error
}

// TeamRules is the owner of the team's rules.
const TeamRules = "team"

// RulesOf is the owner of a user's rules.
func RulesOf(userID int64) string { return "user/" + strconv.FormatInt(userID, 10) }

// LeaseOn is the name of the lease on an agent.
func LeaseOn(agentID string) string { return "agent/" + agentID }
