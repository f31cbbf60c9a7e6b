package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aloft/internal/control/due"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
)

// Timing and limits of reading.
const (
	readWithin = 3 * time.Minute
	claimedFor = 5 * time.Minute // longer than reading a pull request takes
	atOnce     = 8
	busyWait   = 20 * time.Second // delay between checks of a working agent, which send no requests to the forge
	slowest    = 15               // maximum factor by which polling slows down for idle pull requests
)

// Run reads due pull requests until ctx ends. Pull requests that this server
// was reading when it died are due at once.
func (d *Desk) Run(ctx context.Context) error {
	d.worker.Run(ctx)
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
		wait, w.Problem = due.Retry(w.Attempts, err)
		d.Logger.Warn("cannot follow a pull request", "agent", w.AgentID, "url", w.URL, "attempt", w.Attempts, "error", err)
	}
	w.DueAt = d.now().Add(wait)
	if err := d.Store.PutPull(ctx, d.Owner, w); err != nil {
		d.Logger.Error("cannot record a reading; it will be repeated", "agent", w.AgentID, "url", w.URL, "error", err)
	}
}

// read reads a pull request and acts on changes. It returns how long to wait
// until the next read, and the state that it has read.
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
		return due.Never, w.Seen, nil
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
		return due.Never, w.Seen, d.closed(ctx, w, now.pull)
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

// idle returns how long to wait before the next poll of a pull request without
// activity since the given time. It is a tenth of the time since then, but at
// least Poll and at most fifteen times Poll.
func (d *Desk) idle(since time.Time) time.Duration {
	if d.Poll == 0 {
		return due.Never
	}
	return min(max(d.now().Sub(since)/10, d.Poll), slowest*d.Poll)
}
