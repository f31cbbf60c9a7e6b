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
