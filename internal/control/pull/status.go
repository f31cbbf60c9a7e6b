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
	Review Review
	// Unseen is why the forge could not be queried; the state is then the
	// journal's.
	Unseen *agent.Failure
}

// A Review sums up the reviews of an open pull request. Its zero value means
// that there are none, or that the forge does not report them.
type Review struct {
	// Verdict is ChangesRequested if the newest verdict of anyone requests
	// changes, else Approved if anyone has approved, else "".
	Verdict forge.ReviewVerdict
	Threads int // unresolved review threads
}

// reviewOf sums up reviews, oldest first, and threads.
func reviewOf(reviews []forge.Review, threads []forge.Thread) (out Review) {
	newest := map[string]forge.ReviewVerdict{} // by author; comments change no verdict
	for _, r := range reviews {
		if r.Verdict != forge.Commented {
			newest[r.Author] = r.Verdict
		}
	}
	for _, verdict := range newest {
		if verdict == forge.ChangesRequested || verdict == forge.Approved && out.Verdict == "" {
			out.Verdict = verdict
		}
	}
	for _, t := range threads {
		if !t.Resolved {
			out.Threads++
		}
	}
	return out
}

// List returns the state of the agent's pull requests on their forges, at most
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
	now, err := d.seen.get(ctx, p.URL, func() (standing, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
		defer cancel()
		return d.ask(ctx, p)
	})
	out := Status{PullRequest: p, Checks: now.checks, Review: now.review}
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
	if string(now.pull.State) != p.State || now.pull.Title != p.Title || now.pull.Draft != p.Draft {
		seen := &agent.PullRequestSeen{URL: p.URL, State: string(now.pull.State), Title: now.pull.Title, Draft: now.pull.Draft}
		if _, err := d.Journal.Append(ctx, store.Append{AgentID: a.ID, Events: []agent.Event{{Body: seen}}}); err != nil && !errors.Is(err, store.ErrFull) {
			return out, err
		}
	}
	out.State, out.Title, out.Draft = string(now.pull.State), now.pull.Title, now.pull.Draft
	return out, nil
}

// standing is the state of a pull request on its forge.
type standing struct {
	pull   forge.PullRequest
	checks []forge.Check
	review Review
}

// ask queries the forge for the state of a pull request. Checks and reviews that
// cannot be read are left out, since a token may lack access to them.
func (d *Desk) ask(ctx context.Context, p agent.PullRequest) (out standing, err error) {
	f, r, err := d.forge(p.RepoURL)
	if err != nil {
		return out, err
	}
	if out.pull, err = f.Get(ctx, r, int(p.Number)); err != nil {
		return out, err
	}
	if out.pull.HeadCommit != "" {
		if out.checks, err = f.Checks(ctx, r, out.pull.HeadCommit); err != nil {
			d.Logger.WarnContext(ctx, "cannot read the checks of a pull request", "url", p.URL, "error", err)
		}
	}
	if reviewed, ok := f.(forge.Reviewed); ok && out.pull.State == forge.Open {
		if out.review, err = askReview(ctx, reviewed, r, int(p.Number)); err != nil {
			d.Logger.WarnContext(ctx, "cannot read the reviews of a pull request", "url", p.URL, "error", err)
		}
	}
	return out, nil
}

func askReview(ctx context.Context, f forge.Reviewed, r forge.Repo, number int) (Review, error) {
	reviews, err := f.Reviews(ctx, r, number)
	if err != nil {
		return Review{}, err
	}
	threads, err := f.Threads(ctx, r, number)
	if err != nil {
		return Review{}, err
	}
	return reviewOf(reviews, threads), nil
}

// seen caches recent answers of forges, by address. Its zero value is empty.
type seen struct {
	mu  sync.Mutex
	all map[string]*glance
}

// glance is one cached or pending answer of a forge.
type glance struct {
	done   chan struct{} // closed when the other fields are set
	readAt time.Time
	standing
	err error
}

// get returns the cached answer for an address, and calls ask if it is too old.
// Concurrent callers share one call.
func (s *seen) get(ctx context.Context, url string, ask func() (standing, error)) (standing, error) {
	s.mu.Lock()
	g := s.all[url]
	if g == nil || g.isStale() {
		if s.all == nil || len(s.all) >= maxSeen {
			s.all = map[string]*glance{}
		}
		g = &glance{done: make(chan struct{})}
		s.all[url] = g
		go func() {
			g.standing, g.err = ask()
			g.readAt = time.Now()
			close(g.done)
		}()
	}
	s.mu.Unlock()
	select {
	case <-g.done:
		return g.standing, g.err
	case <-ctx.Done():
		return standing{}, context.Cause(ctx)
	}
}

func (g *glance) isStale() bool {
	select {
	case <-g.done:
		return time.Since(g.readAt) > seenFor
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
