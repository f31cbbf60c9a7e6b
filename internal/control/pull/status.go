package pull

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
)

const (
	seenFor   = 10 * time.Second // how long a forge's answer is cached
	maxSeen   = 1000
	atOnce    = 8
	askWithin = 8 * time.Second // timeout, since a user is waiting for a page
)

// A Status is the current state of a pull request.
type Status struct {
	agent.PullRequest
	Checks []forge.Check
	// Unseen is why the forge could not be queried; the state is then the
	// journal's.
	Unseen *agent.Failure
}

// List returns the state of the agent's pull requests at their forges, at most
// a few seconds old. Changes are journaled.
func (d *Desk) List(ctx context.Context, a agent.Agent) ([]Status, error) {
	out := make([]Status, len(a.PullRequests))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, p := range a.PullRequests {
		if out[i].PullRequest = p; p.URL == "" {
			continue
		}
		group.Go(func() (err error) {
			out[i], err = d.look(ctx, a, p)
			return err
		})
	}
	return out, group.Wait()
}

func (d *Desk) look(ctx context.Context, a agent.Agent, p agent.PullRequest) (Status, error) {
	now, checks, err := d.seen.get(ctx, p.URL, func() (forge.PullRequest, []forge.Check, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
		defer cancel()
		return d.ask(ctx, p)
	})
	out := Status{PullRequest: p, Checks: checks}
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		out.Unseen = &agent.Failure{Code: forge.CodeUnreachable, Message: "the forge does not answer"}
		return out, nil
	case err != nil:
		f := FailureOf(err)
		out.Unseen = &f
		return out, nil
	}
	if string(now.State) != p.State || now.Title != p.Title || now.Draft != p.Draft {
		seen := &agent.PullRequestSeen{URL: p.URL, State: string(now.State), Title: now.Title, Draft: now.Draft}
		if _, err := d.Journal.Append(ctx, store.Append{AgentID: a.ID, Events: []agent.Event{{Body: seen}}}); err != nil && !errors.Is(err, store.ErrFull) {
			return out, err
		}
	}
	out.State, out.Title, out.Draft = string(now.State), now.Title, now.Draft
	return out, nil
}

// ask queries the forge for the state of a pull request. Checks that cannot be
// read are left out, since a token may lack access to them.
func (d *Desk) ask(ctx context.Context, p agent.PullRequest) (forge.PullRequest, []forge.Check, error) {
	f, r, err := d.forge(p.RepoURL)
	if err != nil {
		return forge.PullRequest{}, nil, err
	}
	now, err := f.Get(ctx, r, int(p.Number))
	if err != nil || now.HeadCommit == "" {
		return now, nil, err
	}
	checks, err := f.Checks(ctx, r, now.HeadCommit)
	if err != nil {
		d.Logger.WarnContext(ctx, "the checks of a pull request cannot be had", "url", p.URL, "error", err)
	}
	return now, checks, nil
}

// seen caches recent answers of forges, by address. Its zero value is empty.
type seen struct {
	mu  sync.Mutex
	all map[string]*glance
}

// glance is one answer, complete or pending.
type glance struct {
	done   chan struct{} // closed when the other fields are set
	at     time.Time
	pull   forge.PullRequest
	checks []forge.Check
	err    error
}

// get returns the cached answer for an address, and calls ask if it is too old.
// Concurrent callers share one call.
func (s *seen) get(ctx context.Context, url string, ask func() (forge.PullRequest, []forge.Check, error)) (forge.PullRequest, []forge.Check, error) {
	s.mu.Lock()
	g := s.all[url]
	if g == nil || g.old() {
		if s.all == nil || len(s.all) >= maxSeen {
			s.all = map[string]*glance{}
		}
		g = &glance{done: make(chan struct{})}
		s.all[url] = g
		go func() {
			g.pull, g.checks, g.err = ask()
			g.at = time.Now()
			close(g.done)
		}()
	}
	s.mu.Unlock()
	select {
	case <-g.done:
		return g.pull, g.checks, g.err
	case <-ctx.Done():
		return forge.PullRequest{}, nil, context.Cause(ctx)
	}
}

func (g *glance) old() bool {
	select {
	case <-g.done:
		return time.Since(g.at) > seenFor
	default:
		return false
	}
}

// forget removes the answer for an address from the cache.
func (s *seen) forget(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, url)
}
