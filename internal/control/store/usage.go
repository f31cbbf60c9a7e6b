package store

import (
	"context"
	"time"

	"aloft/internal/conversation"
)

// UsageRow is the usage of the runs of one user, day, repository and model.
type UsageRow struct {
	Day    string // when the runs began, as 2006-01-02 in UTC
	UserID int64
	Repo   string // URL of the agent's first repository, or ""
	Model  string // "" is the server's default
	Runs   int64
	Turns  int64
	conversation.Usage
}

// Usage sums up usage. Its methods are safe for concurrent use.
type Usage interface {
	// Usage returns the rows for runs that began in the given period, sorted by
	// day, user, repository and model. User 0 means all users. Deleted agents
	// are not included.
	Usage(ctx context.Context, userID int64, from, to time.Time) ([]UsageRow, error)
}

// Owner is an agent with its owner.
type Owner struct {
	AgentID string
	UserID  int64
	Head    int64  // number of the agent's last event
	Layer   string // the saved disk for its first machine; "" once that machine has started
}

// Sizes returns how much space agents use in the store. Its methods are safe
// for concurrent use.
type Sizes interface {
	// Owners returns the owner of every agent, oldest agent first.
	Owners(ctx context.Context) ([]Owner, error)
	// JournalBytes returns the size of the agent's events with numbers greater
	// than after, and the number of the last of them, or 0 if there is none.
	// The size does not include overhead of the database, such as indexes.
	JournalBytes(ctx context.Context, agentID string, after int64) (bytes, head int64, err error)
}
