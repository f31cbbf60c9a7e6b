package follow

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

// Timing and limits of reading.
const (
	readWithin = 3 * time.Minute
	claimedFor = 5 * time.Minute // longer than a reading takes
	atOnce     = 8
	busyWait   = 20 * time.Second // until a working agent is looked at again; the forge is not asked
	slowest    = 15               // idle pull requests are polled up to so many times less often
	never      = 100 * 365 * 24 * time.Hour
	maxProblem = 500 // bytes
)

// Run reads due pull requests until ctx ends. Those that this server was reading
// when it died are due at once.
func (d *Desk) Run(ctx context.Context) error {
	defer d.reading.Wait()
	released := false
	tick := time.NewTicker(d.Every)
	defer tick.Stop()
	for {
		var err error
		if !released {
			err = d.Store.ReleasePulls(ctx, d.Owner)
			released = err == nil
		}
		if err == nil {
			err = d.readDue(ctx)
		}
		if err != nil && ctx.Err() == nil {
			d.Logger.Error("due pull requests cannot be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// readDue starts as many readings as are allowed at once.
func (d *Desk) readDue(ctx context.Context) error {
	slots := len(d.free)
	if slots == 0 {
		return nil
	}
	due, err := d.Store.ClaimPulls(ctx, d.Owner, claimedFor, slots)
	if err != nil {
		return err
	}
	for _, w := range due {
		<-d.free // does not block, since nobody else takes tokens
		d.reading.Go(func() {
			defer func() { d.free <- struct{}{} }()
			d.attempt(ctx, w)
		})
	}
	return nil
}

// attempt reads a pull request once and records when it is due again.
func (d *Desk) attempt(ctx context.Context, w store.PullWatch) {
	wait, seen, err := d.read(ctx, w)
	if ctx.Err() != nil {
		return
	}
	w.Seen, w.Problem = seen, ""
	if err == nil {
		w.Attempts = 0
	} else {
		w.Attempts++
		wait = inbound.Backoff(w.Attempts)
		if asked, ok := forge.RetryAfter(err); ok {
			wait = max(wait, asked)
		}
		f := fault.Of(err)
		w.Problem = forge.Cut(f.Message, maxProblem)
		d.Logger.Warn("a pull request cannot be followed", "agent", w.AgentID, "url", w.URL, "attempt", w.Attempts, "error", err)
	}
	w.DueAt = d.now().Add(wait)
	if err := d.Store.PutPull(ctx, d.Owner, w); err != nil {
		d.Logger.Error("a reading cannot be recorded: it is repeated", "agent", w.AgentID, "url", w.URL, "error", err)
	}
}

// read reads a pull request and acts on what is new. It returns how long to wait
// until the next reading, and what it has seen.
func (d *Desk) read(ctx context.Context, w store.PullWatch) (wait time.Duration, seen string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while following %s: %v", w.URL, p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	a, err := d.Store.Agent(ctx, w.AgentID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return never, w.Seen, nil
	case err != nil:
		return 0, w.Seen, err
	case a.Archived:
		return d.idle(a.UpdatedAt), w.Seen, nil
	}
	run, err := d.Store.Run(ctx, a.ID, a.LatestRunID)
	if err != nil {
		return 0, w.Seen, err
	}
	if !run.Status.Ended() || len(a.Queue) > 0 {
		return busyWait, w.Seen, nil
	}
	now, err := d.fetch(ctx, w)
	if err != nil {
		return 0, w.Seen, err
	}
	if now.pull.State != forge.Open {
		return never, w.Seen, d.closed(ctx, w, now.pull)
	}
	active := now.active(run.EndedAt)
	if seen = now.fingerprint(w.News); seen == w.Seen {
		return d.idle(active), seen, nil
	}
	wait, err = d.act(ctx, a, now)
	if err != nil {
		return 0, w.Seen, err
	}
	if wait > 0 {
		return wait, w.Seen, nil
	}
	return d.idle(active), seen, nil
}

// idle returns how long to wait until the next poll of a pull request on which
// nothing has happened since the given time: a tenth of that, but at least Poll
// and at most fifteen times as long.
func (d *Desk) idle(since time.Time) time.Duration {
	if d.Poll == 0 {
		return never
	}
	return min(max(d.now().Sub(since)/10, d.Poll), slowest*d.Poll)
}
