package follow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

// act replies to the threads of a run that has ended, and starts a run with the
// new comments and failed checks. If it returns a non-zero duration, the caller
// must call act again after that time.
func (d *Desk) act(ctx context.Context, a agent.Agent, s snapshot) (wait time.Duration, err error) {
	known := pullOf(a, s)
	if known == nil {
		return 0, nil
	}
	h, err := d.history(ctx, a.ID, known.URL, known.RepoURL, known.Branch)
	if err != nil {
		return 0, err
	}
	if h.head != a.Head {
		return busyWait, nil // the agent's state has changed since it was read
	}
	if len(h.threads) > 0 {
		if err := d.answer(ctx, a, known.URL, s, h); err != nil {
			return 0, err
		}
		return time.Millisecond, nil // the journal has moved on: read again
	}
	heard := &agent.PullRequestHeard{URL: known.URL}
	news, err := d.news(ctx, s, h, heard)
	if err != nil {
		return 0, err
	}
	if wait := d.gathering(news); wait > 0 {
		return wait, nil
	}
	failed, note, err := d.autofix(ctx, a, known.RepoURL, s, h, heard)
	if err != nil {
		return 0, err
	}
	if note != nil {
		if err := note(ctx); err != nil {
			return 0, err
		}
	}
	if len(news)+len(failed) == 0 {
		return 0, d.record(ctx, a, h, heard)
	}
	if d.May != nil {
		if err := d.May(ctx, a); err != nil {
			return 0, err
		}
	}
	text := d.clean(a.ID, compose(s, news, d.logs(ctx, s, failed)))
	runID := agent.NewRunID()
	_, err = d.Journal.Append(ctx, store.Append{AgentID: a.ID, IfHead: &h.head, Events: []agent.Event{
		{RunID: runID, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, text), By: agent.ByPullRequest}},
		{RunID: runID, Body: heard},
	}})
	if errors.Is(err, store.ErrMoved) {
		return busyWait, nil
	}
	if err != nil {
		return 0, err
	}
	d.Logger.InfoContext(ctx, "follow-up started", "agent", a.ID, "run", runID, "url", known.URL, "comments", len(news), "checks", len(failed))
	d.Wake(a.ID)
	return busyWait, nil
}

// pullOf returns the agent's pull request that was read.
func pullOf(a agent.Agent, s snapshot) *agent.PullRequest {
	i := slices.IndexFunc(a.PullRequests, func(p agent.PullRequest) bool { return p.RepoURL == s.repoURL && p.Number == int64(s.pull.Number) })
	if i < 0 {
		return nil
	}
	return &a.PullRequests[i]
}

// news returns the comments to act on, oldest first. It adds these and the
// ignored comments to heard.
func (d *Desk) news(ctx context.Context, s snapshot, h history, heard *agent.PullRequestHeard) (news []forge.Comment, err error) {
	why := map[string]string{}
	for _, c := range s.comments {
		if h.handled[c.ID] || forge.IsMarked(c.Body) {
			continue
		}
		reason, asked := why[c.Author]
		if !asked {
			if reason, err = forge.Outsider(ctx, s.forge, s.repo, c.Author); err != nil {
				return nil, err
			}
			why[c.Author] = reason
		}
		if d.Elsewhere != nil && d.Elsewhere(c.Body) {
			reason = cmp.Or(reason, "it asks for a review")
		}
		t := s.threadOf(c.ID)
		if t != nil && t.Resolved {
			reason = cmp.Or(reason, "its thread is resolved")
		}
		if reason != "" {
			heard.Ignored = append(heard.Ignored, agent.IgnoredComment{ID: c.ID, Author: c.Author, Reason: reason})
			continue
		}
		if len(news) == maxComments { // the next run gets the remaining comments
			continue
		}
		news = append(news, c)
		heard.Comments = append(heard.Comments, c.ID)
		if t != nil && !slices.Contains(heard.Threads, t.ID) {
			heard.Threads = append(heard.Threads, t.ID)
		}
	}
	return news, nil
}

// gathering returns how long to wait for more comments: until the oldest new
// one is as old as Gather. It is at most Gather, because the clocks may differ.
func (d *Desk) gathering(news []forge.Comment) time.Duration {
	if len(news) == 0 || news[0].CreatedAt.IsZero() {
		return 0
	}
	return min(news[0].CreatedAt.Add(d.Gather).Sub(d.now()), d.Gather)
}

// record journals which comments were ignored and why autofix stopped.
func (d *Desk) record(ctx context.Context, a agent.Agent, h history, heard *agent.PullRequestHeard) error {
	if len(heard.Ignored) == 0 && heard.Stopped == "" {
		return nil
	}
	_, err := d.Journal.Append(ctx, store.Append{AgentID: a.ID, IfHead: &h.head, Events: []agent.Event{{Body: heard}}})
	return err
}
