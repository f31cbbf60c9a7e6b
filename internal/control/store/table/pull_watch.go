package table

import (
	"context"
	"fmt"
	"slices"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/table/query"
	"aloft/internal/secret"
)

// open is the state of an open pull request in journals.
const open = "open"

// watchPulls adds and deletes watches for the pull requests in the events.
// before lists the agent's pull requests before these events. It does not watch
// pull requests on which the agent was started, because others own these, or
// pull requests that were already open, because their comments are old.
func (tx *Tx) watchPulls(a agent.Agent, before []agent.PullRequest, events []agent.Event) error {
	for _, e := range events {
		switch b := e.Body.(type) {
		case *agent.PullRequestOpened:
			if err := tx.watchPull(a, before, b.PullRequest, e.Time); err != nil {
				return err
			}
		case *agent.PullRequestSeen:
			for _, p := range a.PullRequests {
				if p.URL != b.URL {
					continue
				}
				if err := tx.watchPull(a, before, p, e.Time); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// watchPull adds the watch of an open pull request, or deletes the watch of a
// closed pull request.
func (tx *Tx) watchPull(a agent.Agent, before []agent.PullRequest, p agent.PullRequest, due time.Time) error {
	switch {
	case p.URL == "":
		return nil
	case p.State != open:
		return tx.Q.DeleteWatch(tx.Ctx, query.DeleteWatchParams{AgentID: a.ID, Url: p.URL})
	case slices.ContainsFunc(a.Repos, func(r agent.Repo) bool { return r.URL == p.RepoURL && r.PullRequest != "" }):
		return nil
	case slices.ContainsFunc(before, func(o agent.PullRequest) bool { return o.URL == p.URL && o.State == open }):
		return nil
	}
	return tx.Q.AddWatch(tx.Ctx, query.AddWatchParams{
		AgentID: a.ID, Url: p.URL, Repo: secret.Repo(p.RepoURL), RepoUrl: p.RepoURL, Branch: p.Branch, Number: p.Number, DueAt: nanos(due),
	})
}

// PullsOf implements [store.PullWatches].
func (s *Store) PullsOf(ctx context.Context, repo string) ([]store.PullWatch, error) {
	rows, err := s.read.WatchesOfRepo(ctx, repo)
	if err != nil {
		return nil, fmt.Errorf("list the pull requests of %s: %w", repo, err)
	}
	return pullWatchesOf(rows), nil
}

// PullWatchesOf implements [store.PullWatches].
func (s *Store) PullWatchesOf(ctx context.Context, agentID string) ([]store.PullWatch, error) {
	rows, err := s.read.ListWatches(ctx, agentID)
	if err != nil {
		return nil, fmt.Errorf("list the pull requests of %s: %w", agentID, err)
	}
	return pullWatchesOf(rows), nil
}

// TellPull implements [store.PullWatches].
func (s *Store) TellPull(ctx context.Context, agentID, url string, due time.Time) error {
	err := s.db.Write(ctx, alone, func(tx *Tx) error {
		n, err := tx.Q.TellWatch(tx.Ctx, query.TellWatchParams{DueAt: nanos(due), AgentID: agentID, Url: url})
		tx.Wrote = n > 0
		return err
	})
	if err != nil {
		return fmt.Errorf("schedule the pull request %s: %w", url, err)
	}
	return nil
}

// ClaimPulls implements [store.PullWatches].
func (s *Store) ClaimPulls(ctx context.Context, owner string, again time.Duration, limit int) ([]store.PullWatch, error) {
	now := time.Now()
	due := query.DueWatchesParams{Now: nanos(now), Most: int64(max(limit, 0))}
	rows, err := claimDue(ctx, s, pulls, due, (*query.Queries).DueWatches, func(tx *Tx, row query.PullWatch) error {
		return tx.Q.ClaimWatch(tx.Ctx, query.ClaimWatchParams{Owner: owner, Until: nanos(now.Add(again)), AgentID: row.AgentID, Url: row.Url})
	})
	if err != nil {
		return nil, fmt.Errorf("claim pull requests: %w", err)
	}
	return pullWatchesOf(rows), nil
}

// ReleasePulls implements [store.PullWatches].
func (s *Store) ReleasePulls(ctx context.Context, owner string) error {
	release := query.ReleaseWatchesParams{Now: time.Now().UnixNano(), Owner: owner}
	return writeOne(ctx, s, pulls, "release pull requests", release, (*query.Queries).ReleaseWatches)
}

// PutPull implements [store.PullWatches].
func (s *Store) PutPull(ctx context.Context, owner string, w store.PullWatch) error {
	err := s.db.Write(ctx, pulls, func(tx *Tx) error {
		n, err := tx.Q.PutWatch(tx.Ctx, query.PutWatchParams{
			Seen: w.Seen, Attempts: int64(w.Attempts), Problem: w.Problem, News: w.News, DueAt: nanos(w.DueAt), AgentID: w.AgentID, Url: w.URL, Owner: owner,
		})
		tx.Wrote = n > 0
		return err
	})
	if err != nil {
		return fmt.Errorf("record the pull request %s: %w", w.URL, err)
	}
	return nil
}

func pullWatchesOf(rows []query.PullWatch) []store.PullWatch {
	all := make([]store.PullWatch, len(rows))
	for i, row := range rows {
		all[i] = store.PullWatch{
			AgentID: row.AgentID, URL: row.Url, Repo: row.Repo, RepoURL: row.RepoUrl, Branch: row.Branch, Number: int(row.Number),
			DueAt: stamp(row.DueAt), News: row.News, Seen: row.Seen, Attempts: int(row.Attempts), Problem: row.Problem,
		}
	}
	return all
}
