package store

import (
	"context"
	"time"
)

// PullWatch is an open pull request that an agent has opened, and when it is
// read next. [Journal.Append] adds it with the event that records the opened
// pull request, and deletes it with the event that records its end. Deleting
// the agent deletes its watches.
type PullWatch struct {
	AgentID  string
	URL      string // URL of the pull request
	Repo     string // host/owner/name in lower case, see [secret.Repo]
	RepoURL  string // URL of the repository, as in the agent's journal
	Branch   string
	Number   int
	DueAt    time.Time
	News     int64  // how often TellPull was called
	Seen     string // a hash of the state that was read last
	Attempts int    // failed reads in a row
	Problem  string // error of the last read
}

// PullWatches schedules the reading of pull requests. Its methods are safe for
// concurrent use.
type PullWatches interface {
	// PullsOf returns the watched pull requests of a repository, given as in
	// [PullWatch].
	PullsOf(ctx context.Context, repo string) ([]PullWatch, error)
	// PullWatchesOf returns an agent's watched pull requests.
	PullWatchesOf(ctx context.Context, agentID string) ([]PullWatch, error)
	// TellPull makes the pull request due at the given time, unless it is due
	// earlier. This holds even if a read is in progress.
	TellPull(ctx context.Context, agentID, url string, due time.Time) error
	// ClaimPulls returns at most limit due pull requests for owner to read. They
	// become due again after the given time, in case the server dies.
	ClaimPulls(ctx context.Context, owner string, again time.Duration, limit int) ([]PullWatch, error)
	// ReleasePulls makes the pull requests that owner has claimed due again.
	ReleasePulls(ctx context.Context, owner string) error
	// PutPull records a read: DueAt, Seen, Attempts and Problem. If TellPull was
	// called since w was claimed, the earlier time counts. It does nothing if
	// owner's claim has ended.
	PutPull(ctx context.Context, owner string, w PullWatch) error
}
