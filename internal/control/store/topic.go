package store

import (
	"context"
	"time"
)

// Topic is an issue or a pull request on which somebody has mentioned Aloft.
type Topic struct {
	Repo      string // host/owner/name in lower case
	Number    int
	Issue     bool   // whether it is an issue, not a pull request
	RepoURL   string // URL of the repository, for agents
	AgentID   string // the agent that works on it; "" if no agent was assigned yet
	CommentID string // id of the comment that shows the agent's state; "" before it exists
	Handled   string // ids of the comments that were acted on, one per line
	Answer    string // reply to a comment that could not be acted on; "" if there is none
	Shown     string // hash of the text of the comment CommentID
	Read      int64  // value of News at the last read
	CreatedAt time.Time
	DueAt     time.Time
	News      int64  // how often TellTopic was called
	Attempts  int    // failed attempts in a row
	Problem   string // error of the last attempt
}

// Topics schedules the work on topics. Its methods are safe for concurrent use.
type Topics interface {
	// TellTopic adds the topic, named by its Repo, Number, Issue and RepoURL,
	// or makes an existing one due at the given time, unless it is due earlier.
	// This holds even if an attempt is in progress.
	TellTopic(ctx context.Context, t Topic, due time.Time) error
	// Topic returns a topic. The error wraps [ErrNotFound] if it does not exist.
	Topic(ctx context.Context, repo string, number int, issue bool) (Topic, error)
	// ClaimTopics returns at most limit due topics for owner to work on. They
	// become due again after the given time, in case the server dies.
	ClaimTopics(ctx context.Context, owner string, again time.Duration, limit int) ([]Topic, error)
	// ReleaseTopics makes the topics that owner has claimed due again.
	ReleaseTopics(ctx context.Context, owner string) error
	// PutTopic records an attempt: every field except those that name the
	// topic, CreatedAt and News. If TellTopic was called since t was claimed,
	// the earlier time counts. The error wraps [ErrNotFound] if owner's claim
	// has ended.
	PutTopic(ctx context.Context, owner string, t Topic) error
}
