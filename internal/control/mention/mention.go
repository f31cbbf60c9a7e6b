// Package mention works on requests in comments: "@aloft fix the list" on an
// issue or a pull request starts an agent, and a later mention there is a
// follow-up to it. A single comment of the server shows the agent's state.
//
// An event only makes the issue or pull request due; polling does the same
// where no events arrive. The desk reads it from its forge, and acts on
// comments of people who may write to the repository. The id of an agent
// derives from the comment that asked for it, and it is stored before the agent
// is started. The id of a follow-up's run derives from its comment, too. So
// duplicate events, events out of order, and a server that dies at any point
// never cause an agent or a run twice.
//
// Everything read from the forge is untrusted. Prompts quote it line by line.
package mention

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/due"
	"aloft/internal/control/forge"
	"aloft/internal/control/inbound"
	"aloft/internal/control/store"
)

// Store is the part of the store that a [Desk] uses.
type Store interface {
	store.Topics
	store.Leases
	PullsOf(ctx context.Context, repo string) ([]store.PullWatch, error)
	Agent(ctx context.Context, id string) (agent.Agent, error)
	Run(ctx context.Context, agentID, runID string) (agent.Run, error)
}

// Start describes an agent to start.
type Start struct {
	AgentID     string
	UserID      int64 // the owner
	Prompt      string
	RepoURL     string
	PullRequest string // URL of the pull request to work on; "" for an issue
	Branch      string // branch to start from; "" is the default
	Model       string // "" is the default
}

// Agents starts agents and sends them prompts. Its methods are safe for
// concurrent use. Errors are faults, whose messages are shown on the forge.
type Agents interface {
	// Start starts an agent. If the id is taken, the fault is
	// agent_id_conflict.
	Start(ctx context.Context, s Start) error
	// Review starts an agent that reviews s.PullRequest and posts its findings there.
	// If the id is taken, the fault is agent_id_conflict.
	Review(ctx context.Context, s Start) error
	// FollowUp sends a prompt, or queues it while the agent works. A repeat with
	// the same run id starts no second run; with another prompt, the fault is
	// idempotency_key_reused.
	FollowUp(ctx context.Context, agentID, runID, prompt, model string) error
}

// Config configures a [Desk]. All fields but Secrets, Shown, Repos, Poll, Every
// and Logger are required.
type Config struct {
	Store  Store
	Agents Agents
	Owner  string // this server's name
	Forges forge.Set
	Handle string // without the @
	// Next handles changes without a mention, and pull requests that agents
	// own.
	Next inbound.Handler
	// Account returns the user who will own agents that a login on the host asks
	// for. If the login has no user, the error is a fault.
	Account func(ctx context.Context, host, login string) (userID int64, err error)
	ID      func(words ...string) string                                        // a reserved agent id for the words
	RepoURL func(r forge.Repo) string                                           // the URL to clone
	Page    func(agentID string) string                                         // the URL of an agent's page
	Models  func() []string                                                     // ids that the option model may have
	Secrets func(string) map[string]string                                      // must not appear in prompts or comments; nil means none
	Mark    func(words ...string) string                                        // a key for comments that others cannot guess
	Shown   func(ctx context.Context, a agent.Agent, r agent.Run) (bool, error) // reports whether an agent's messages may be shown outside; nil means always
	Repos   []forge.Repo                                                        // repositories that are polled for mentions
	Poll    time.Duration                                                       // interval of polling; required with Repos
	Every   time.Duration                                                       // interval of looking for due topics; default a second
	Logger  *slog.Logger
}

// Desk works on mentions. Its methods are safe for concurrent use.
type Desk struct {
	Config
	worker *due.Worker[store.Topic]
	now    func() time.Time
}

// New returns a desk. Run starts to work on mentions.
func New(c Config) *Desk {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Desk{Config: c, now: time.Now}
	d.worker = due.New(due.Config[store.Topic]{
		Claim: func(ctx context.Context, limit int) ([]store.Topic, error) {
			return c.Store.ClaimTopics(ctx, c.Owner, claimedFor, limit)
		},
		Release: func(ctx context.Context) error { return c.Store.ReleaseTopics(ctx, c.Owner) },
		Attempt: d.attempt, AtOnce: atOnce, Every: c.Every,
		Failed: func(err error) { c.Logger.Error("cannot read the due topics", "error", err) },
	})
	return d
}

// Changed implements [inbound.Handler]: it makes the issue or pull request due
// if the change mentions the handle.
func (d *Desk) Changed(ctx context.Context, c inbound.Change) error {
	if _, ok := find(c.Text, d.Handle); !ok || c.Number <= 0 {
		return d.Next.Changed(ctx, c)
	}
	t := store.Topic{Repo: strings.ToLower(c.Repo.String()), Number: c.Number, Issue: c.OnIssue, RepoURL: d.RepoURL(c.Repo)}
	owned, err := d.owned(ctx, t)
	if err != nil {
		return err
	}
	if owned && !AsksReview(c.Text, d.Handle) {
		return d.Next.Changed(ctx, c)
	}
	f, r, err := d.Forges.Find(c.Repo)
	if err != nil {
		return err
	}
	if err := c.CheckActor(ctx, f, r); err != nil {
		return err
	}
	if err := d.Store.TellTopic(ctx, t, d.now()); err != nil {
		return err
	}
	d.worker.Wake()
	return nil
}

// owned reports whether an agent has opened the pull request and follows it.
// That agent gets all comments on it anyway, except those that ask for a
// review.
func (d *Desk) owned(ctx context.Context, t store.Topic) (bool, error) {
	if t.Issue {
		return false, nil
	}
	all, err := d.Store.PullsOf(ctx, t.Repo)
	for _, w := range all {
		if w.Number == t.Number {
			return true, err
		}
	}
	return false, err
}

// agent returns the topic's agent, or nil if it does not exist.
func (d *Desk) agent(ctx context.Context, t store.Topic) (*agent.Agent, error) {
	if t.AgentID == "" {
		return nil, nil
	}
	a, err := d.Store.Agent(ctx, t.AgentID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &a, err
}
