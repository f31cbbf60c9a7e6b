package mention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/inbound"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Timing and limits of the work.
const (
	workWithin = 2 * time.Minute
	claimedFor = 5 * time.Minute // longer than an attempt takes
	atOnce     = 8
	activeWait = 5 * time.Second  // until a working agent is looked at again; the forge is not asked
	idleWait   = 30 * time.Second // the same for an agent that has just ended its run
	shownFor   = 24 * time.Hour   // how long the state is shown after a run
	never      = 100 * 365 * 24 * time.Hour
	oldest     = 24 * time.Hour // mentions that were made longer before the first event are not acted on
	maxProblem = 500            // bytes
)

// Run works on due topics until ctx ends. Those that this server was working on
// when it died are due at once.
func (d *Desk) Run(ctx context.Context) error {
	defer d.working.Wait()
	if len(d.Repos) > 0 {
		d.working.Go(func() { d.pollAll(ctx) })
	}
	released := false
	tick := time.NewTicker(d.Every)
	defer tick.Stop()
	for {
		var err error
		if !released {
			err = d.Store.ReleaseTopics(ctx, d.Owner)
			released = err == nil
		}
		if err == nil {
			err = d.workDue(ctx)
		}
		if err != nil && ctx.Err() == nil {
			d.Logger.Error("due topics cannot be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-d.soon:
		}
	}
}

// workDue starts as many attempts as are allowed at once.
func (d *Desk) workDue(ctx context.Context) error {
	slots := len(d.free)
	if slots == 0 {
		return nil
	}
	due, err := d.Store.ClaimTopics(ctx, d.Owner, claimedFor, slots)
	if err != nil {
		return err
	}
	for _, t := range due {
		<-d.free // does not block, since nobody else takes tokens
		d.working.Go(func() {
			defer func() { d.free <- struct{}{} }()
			d.attempt(ctx, t)
		})
	}
	return nil
}

// attempt takes one step for a topic and records it.
func (d *Desk) attempt(ctx context.Context, t store.Topic) {
	wait, err := d.work(ctx, &t)
	if ctx.Err() != nil {
		return
	}
	if t.Problem = ""; err == nil {
		t.Attempts = 0
	} else {
		t.Attempts++
		wait = inbound.Backoff(t.Attempts)
		if asked, ok := forge.RetryAfter(err); ok {
			wait = max(wait, asked)
		}
		t.Problem = forge.Cut(fault.Of(err).Message, maxProblem)
		d.Logger.Warn("a mention cannot be worked on", "repo", t.Repo, "number", t.Number, "attempt", t.Attempts, "error", err)
	}
	t.DueAt = d.now().Add(wait)
	if err := d.Store.PutTopic(ctx, d.Owner, t); err != nil && !errors.Is(err, store.ErrNotFound) {
		d.Logger.Error("a mention cannot be recorded: the step is repeated", "repo", t.Repo, "number", t.Number, "error", err)
	}
	if wait == 0 {
		d.wake()
	}
}

// work takes the next step for a topic, and returns how long to wait until the
// one after it. Each step has at most one effect outside, and what it needs was
// recorded before.
func (d *Desk) work(ctx context.Context, t *store.Topic) (wait time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while working on number %d of %s: %v", t.Number, t.Repo, p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, workWithin)
	defer cancel()
	named, err := forge.ParseURL(t.RepoURL)
	if err != nil {
		return 0, err
	}
	f, r, err := d.Forges.Find(named)
	if err != nil {
		return 0, err
	}
	issues, ok := f.(forge.Issues)
	if !ok {
		return never, nil
	}
	at := place{f, issues, r, t}
	if t.Read != t.News {
		more, err := d.hear(ctx, at)
		if err != nil || more {
			return 0, err
		}
	}
	return d.show(ctx, at)
}
