package store

import (
	"context"
	"time"

	"aloft/internal/conversation"
)

// UsageRow is what runs have used, of one user in one day.
type UsageRow struct {
	Day    string // 2006-01-02, in UTC, when the runs began
	UserID int64
	Repo   string // URL of the agent's first repository; "" where it has none
	Model  string // "" is the server's default
	Runs   int64
	Turns  int64
	conversation.Usage
}

// Usage counts what was used. Its methods are safe for concurrent use.
type Usage interface {
	// Usage returns the rows of runs that began in the time, by day, user,
	// repository and model in this order; a user of 0 is everybody. Agents that were
	// deleted are not counted.
	Usage(ctx context.Context, userID int64, from, to time.Time) ([]UsageRow, error)
}
