package mention

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"aloft/internal/control/due"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
)

// Timing and limits of the work.
const (
	workWithin = 2 * time.Minute
	claimedFor = 5 * time.Minute // longer than an attempt takes
	atOnce     = 8
	activeWait = 5 * time.Second  // delay between checks of a working agent, which send no requests to the forge
	idleWait   = 30 * time.Second // the same for an agent that has just ended its run
	shownFor   = 24 * time.Hour   // how long the state is shown after a run
	oldest     = 24 * time.Hour   // maximum age of a mention at the first event; older mentions are ignored
)

// Run works on due topics until ctx ends. Topics that this server was working
// on when it died are due at once.
func (d *Desk) Run(ctx context.Context) error {
	var polling sync.WaitGroup
	defer polling.Wait()
	if len(d.Repos) > 0 {
		polling.Go(func() { d.pollAll(ctx) })
	}
	d.worker.Run(ctx)
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
		wait, t.Problem = due.Retry(t.Attempts, err)
		d.Logger.Warn("cannot handle a mention", "repo", t.Repo, "number", t.Number, "attempt", t.Attempts, "error", err)
	}
	t.DueAt = d.now().Add(wait)
	if err := d.Store.PutTopic(ctx, d.Owner, t); err != nil && !errors.Is(err, store.ErrNotFound) {
		d.Logger.Error("cannot record a mention; the step will be repeated", "repo", t.Repo, "number", t.Number, "error", err)
	}
	if wait == 0 {
		d.worker.Wake()
	}
}

// work takes the next step for a topic, and returns the delay until the
// following step. Each step changes at most one thing on the forge, and
// everything that it needs was stored before.
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
		return due.Never, nil
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
