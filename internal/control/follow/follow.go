// Package follow lets agents follow the pull requests that they have opened. It
// learns from events and by polling that a pull request may have changed, reads
// it from its forge, and starts a follow-up run with the comments of people who
// may write to the repository and the logs of failed checks. When such a run has
// ended, it replies to the review threads and resolves them.
//
// The append that starts a run also journals the comments and checks that caused
// it. So repeated reads, in any order, and crashes never start a second run for
// the same comment or check.
//
// What people and jobs have written is untrusted. Prompts quote it line by line,
// under the name of its author.
package follow

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
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
	store.PullWatches
	Agent(ctx context.Context, id string) (agent.Agent, error)
	Run(ctx context.Context, agentID, runID string) (agent.Run, error)
}

// Config configures a [Desk]. All fields but Secrets, Autofix, Shown, Every and
// Logger are required.
type Config struct {
	Store   Store
	Journal store.Journal
	Owner   string // this server's name
	Forges  forge.Set
	// Branch returns the commit of a branch of a repository.
	Branch func(ctx context.Context, repoURL, branch string) (commit string, err error)
	// May returns a fault if a run of the agent may not start now.
	May  func(ctx context.Context, a agent.Agent) error
	Wake func(agentID string) // tells the scheduler of a new run
	// Secrets are values, by name, that must not appear in prompts or comments;
	// nil means none.
	Secrets func(agentID string) map[string]string
	// Elsewhere reports whether a comment asks another agent for something, such as a
	// reviewer; nil means never.
	Elsewhere func(body string) bool
	// Autofix reports whether agents fix failed checks; nil means always.
	Autofix func(ctx context.Context) (bool, error)
	// Shown reports whether the agent's messages in a run may be shown outside;
	// nil means always.
	Shown  func(ctx context.Context, a agent.Agent, r agent.Run) (bool, error)
	Gather time.Duration // delay between the first event and reading the pull request
	Poll   time.Duration // interval of reading active pull requests without an event; 0 means never
	Every  time.Duration // interval of looking for due pull requests; default a second
	Logger *slog.Logger
}

// Desk follows pull requests. Its methods are safe for concurrent use.
type Desk struct {
	Config
	worker *due.Worker[store.PullWatch]
	now    func() time.Time
}

// New returns a desk. Run starts to read pull requests.
func New(c Config) *Desk {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Desk{Config: c, now: time.Now}
	d.worker = due.New(due.Config[store.PullWatch]{
		Claim: func(ctx context.Context, limit int) ([]store.PullWatch, error) {
			return c.Store.ClaimPulls(ctx, c.Owner, claimedFor, limit)
		},
		Release: func(ctx context.Context) error { return c.Store.ReleasePulls(ctx, c.Owner) },
		Attempt: d.attempt, AtOnce: atOnce, Every: c.Every,
		Failed: func(err error) { c.Logger.Error("cannot read the due pull requests", "error", err) },
	})
	return d
}

// Changed implements [inbound.Handler]: it schedules the pull requests that the
// event is about for reading.
func (d *Desk) Changed(ctx context.Context, c inbound.Change) error {
	if c.OnIssue {
		return inbound.Ignored("it is about an issue, not a pull request")
	}
	all, err := d.Store.PullsOf(ctx, strings.ToLower(c.Repo.String()))
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(w store.PullWatch) bool { return !isAbout(c, w) })
	if len(all) == 0 {
		return inbound.Ignored(fmt.Sprintf("no agent has an open pull request for this in %s", c.Repo))
	}
	if c.Kind == inbound.Comment && c.Actor != "" {
		f, r, err := d.Forges.Find(c.Repo)
		if err != nil {
			return err
		}
		if err := c.CheckActor(ctx, f, r); err != nil {
			return err
		}
	}
	due := d.now().Add(d.Gather)
	for _, w := range all {
		if err := d.Store.TellPull(ctx, w.AgentID, w.URL, due); err != nil {
			return err
		}
	}
	return nil
}

// isAbout reports whether the change is about the pull request. If only the
// commit is known, isAbout returns true, because only reading the pull request
// can tell.
func isAbout(c inbound.Change, w store.PullWatch) bool {
	switch {
	case c.Number > 0:
		return w.Number == c.Number
	case c.Branch != "":
		return w.Branch == c.Branch
	}
	return true
}
