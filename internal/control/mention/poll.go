package mention

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

const (
	pollOverlap = 5 * time.Minute // how far the clocks of the forge and the server may differ
	pollLease   = "mentions"      // held by the server that polls
)

// polled is a repository that is polled.
type polled struct {
	repo  forge.Repo
	since time.Time                 // all changes before this time have been read
	seen  map[forge.Topic]time.Time // the time of the last change of each topic that was read
	next  time.Time                 // earliest time of the next poll, because the forge limits requests
}

// pollAll polls the repositories until ctx ends. After a server start, it reads
// all changes of the last day again; the store knows which mentions were
// handled.
func (d *Desk) pollAll(ctx context.Context) {
	all := make([]polled, len(d.Repos))
	for i, r := range d.Repos {
		all[i] = polled{repo: r, since: d.now().Add(-oldest), seen: map[forge.Topic]time.Time{}}
	}
	tick := time.NewTicker(d.Poll)
	defer tick.Stop()
	for {
		mine, err := d.Store.Acquire(ctx, pollLease, d.Owner, 3*d.Poll)
		if err != nil && ctx.Err() == nil {
			d.Logger.Error("cannot read the lease for polling mentions", "error", err)
		}
		for i := range all {
			if !mine || d.now().Before(all[i].next) {
				continue
			}
			if err := d.poll(ctx, &all[i]); err != nil && ctx.Err() == nil {
				wait, _ := forge.RetryAfter(err)
				all[i].next = d.now().Add(wait)
				d.Logger.Warn("cannot poll a repository for mentions", "repo", all[i].repo.String(), "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// poll finds the topics of a repository that have new mentions, and makes them due.
func (d *Desk) poll(ctx context.Context, of *polled) error {
	ctx, cancel := context.WithTimeout(ctx, workWithin)
	defer cancel()
	begin := d.now()
	f, r, err := d.Forges.Find(of.repo)
	if err != nil {
		return err
	}
	issues, ok := f.(forge.Issues)
	if !ok {
		return fault.Invalid("%s has no issues", r.Host).Named(forge.CodeUnsupported)
	}
	found, err := issues.Updated(ctx, r, of.since)
	if err != nil {
		return err
	}
	for _, u := range found {
		if at, ok := of.seen[u.Topic]; ok && at.Equal(u.At) {
			continue
		}
		t := store.Topic{Repo: strings.ToLower(r.String()), Number: u.Topic.Number, Issue: u.Topic.Issue, RepoURL: d.RepoURL(r)}
		known, err := d.Store.Topic(ctx, t.Repo, t.Number, t.Issue)
		switch {
		case err == nil:
			t = known
		case !errors.Is(err, store.ErrNotFound):
			return err
		default:
			t.CreatedAt = begin
		}
		if news, err := d.hasNews(ctx, place{f, issues, r, &t}); err != nil {
			return err
		} else if news {
			if err := d.Store.TellTopic(ctx, t, begin); err != nil {
				return err
			}
			d.worker.Wake()
		}
		of.seen[u.Topic] = u.At
	}
	of.since = begin.Add(-pollOverlap)
	for topic, at := range of.seen {
		if at.Before(of.since) {
			delete(of.seen, topic)
		}
	}
	return nil
}

// hasNews reports whether the topic has a mention that was not handled. Package
// follow handles pull requests that agents have opened.
func (d *Desk) hasNews(ctx context.Context, p place) (bool, error) {
	owned, err := d.owned(ctx, *p.topic)
	if err != nil {
		return false, err
	}
	s, err := p.read(ctx)
	if fault.Is(err, fault.KindNotFound) {
		return false, nil
	}
	return slices.ContainsFunc(p.allComments(s), func(c forge.Comment) bool { return d.isNew(p, c) && (!owned || AsksReview(c.Body, d.Handle)) }), err
}
