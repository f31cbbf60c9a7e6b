// Package autoreview starts reviews of pull requests automatically, for the
// repositories that the configuration names. An event about a pull request only
// causes it to be read from its forge. The id of the reviewing agent derives
// from the pull request's head commit. So each commit is reviewed once,
// regardless of the number and order of events.
package autoreview

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/control/inbound"
	"aloft/internal/fault"
)

// Config is what a desk needs. All fields but Anyone and Logger are required.
type Config struct {
	Forges forge.Set
	Repos  []forge.Repo
	Anyone bool // whether to review pull requests of people who may not write to the repository
	// Start starts an agent that reviews a pull request and posts its findings there.
	// The error is a fault; if the id is taken, it is agent_id_conflict.
	Start  func(ctx context.Context, agentID, prURL string) error
	ID     func(words ...string) string // a reserved agent id for the words
	Next   inbound.Handler              // handler that also gets all changes
	Logger *slog.Logger
}

// Desk starts reviews. Its methods are safe for concurrent use.
type Desk struct{ Config }

// New returns a desk that reviews pull requests.
func New(c Config) *Desk {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{c}
}

// Changed implements [inbound.Handler]. It starts a review if the change
// concerns an open pull request whose head commit was not reviewed, and passes
// the change on to Next.
func (d *Desk) Changed(ctx context.Context, c inbound.Change) error {
	if c.Kind != inbound.PullRequest || c.OnIssue || c.Number <= 0 || !slices.ContainsFunc(d.Repos, c.Repo.Same) {
		return d.Next.Changed(ctx, c)
	}
	err := d.review(ctx, c)
	next := d.Next.Changed(ctx, c)
	why, isIgnored := errors.AsType[inbound.Ignored](err)
	_, nextIgnores := errors.AsType[inbound.Ignored](next)
	switch {
	case err != nil && !isIgnored:
		return err
	case next != nil && !nextIgnores:
		return next
	case isIgnored && nextIgnores:
		return inbound.Ignored(fmt.Sprintf("no review: %s; %v", why, next))
	}
	return nil
}

// review starts a review of the pull request. If it starts no review and a
// retry would not either, the error is an [inbound.Ignored].
func (d *Desk) review(ctx context.Context, c inbound.Change) error {
	f, r, err := d.Forges.Find(c.Repo)
	if err != nil {
		return err
	}
	p, err := f.Get(ctx, r, c.Number)
	switch {
	case fault.Is(err, fault.KindNotFound):
		return inbound.Ignored("the pull request does not exist")
	case err != nil:
		return err
	case p.State != forge.Open:
		return inbound.Ignored("the pull request is " + string(p.State))
	case p.Draft:
		return inbound.Ignored("the pull request is a draft")
	case p.HeadCommit == "":
		return fault.Unavailable("%s does not know the commit of %s yet", r.Host, p.URL).Named(forge.CodeUnreachable)
	}
	if !d.Anyone {
		if err := inbound.CheckWriter(ctx, f, r, p.Author); err != nil {
			return err
		}
	}
	id := d.ID("autoreview", strings.ToLower(r.String()), strconv.Itoa(p.Number), p.HeadCommit)
	err = d.Start(ctx, id, p.URL)
	fa := fault.Of(err)
	switch {
	case err == nil:
		d.Logger.InfoContext(ctx, "review started by an event", "url", p.URL, "commit", p.HeadCommit, "agent", id)
		return nil
	case fa.Code == "agent_id_conflict":
		return inbound.Ignored("its commit has already been reviewed")
	case fa.Kind == fault.KindInternal || fa.Kind == fault.KindUnavailable || fa.Kind == fault.KindExhausted:
		return err
	}
	return inbound.Ignored(fa.Message)
}
