package follow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// checksLate is how long to wait for the other checks after one has failed.
const checksLate = 30 * time.Minute

// snapshot is a pull request as read from its forge.
type snapshot struct {
	forge    forge.Forge
	repo     forge.Repo
	repoURL  string
	pull     forge.PullRequest
	comments []forge.Comment
	threads  []forge.Thread
	checks   []forge.Check
	late     bool // whether some checks are pending, but others have failed long ago
}

// fetch reads a pull request.
func (d *Desk) fetch(ctx context.Context, w store.PullWatch) (s snapshot, err error) {
	s.repoURL = w.RepoURL
	named, err := forge.ParseURL(w.RepoURL)
	if err != nil {
		return s, err
	}
	if s.forge, s.repo, err = d.Forges.Find(named); err != nil {
		return s, err
	}
	if s.pull, err = s.forge.Get(ctx, s.repo, w.Number); err != nil || s.pull.State != forge.Open {
		return s, err
	}
	if f, ok := s.forge.(forge.Discussion); ok {
		if s.comments, err = f.Comments(ctx, s.repo, w.Number); err != nil {
			return s, err
		}
	}
	if f, ok := s.forge.(forge.Reviewed); ok {
		if s.threads, err = f.Threads(ctx, s.repo, w.Number); err != nil {
			return s, err
		}
	}
	if s.pull.HeadCommit == "" {
		return s, nil
	}
	s.checks, err = s.forge.Checks(ctx, s.repo, s.pull.HeadCommit)
	if fault.Is(err, fault.KindDenied) || fault.Is(err, fault.KindNotFound) {
		err = nil // the token has no access to them
	}
	s.late = slices.ContainsFunc(s.checks, func(c forge.Check) bool {
		return c.State == forge.Failure && !c.EndedAt.IsZero() && d.now().Sub(c.EndedAt) > checksLate
	})
	return s, err
}

// failed returns the failed checks once all checks have ended, or the others
// take too long.
func (s snapshot) failed() (failed []forge.Check) {
	for _, c := range s.checks {
		if c.State == forge.Pending && !s.late {
			return nil
		}
		if c.State == forge.Failure {
			failed = append(failed, c)
		}
	}
	return failed
}

// threadOf returns the thread of a comment, or nil.
func (s snapshot) threadOf(commentID string) *forge.Thread {
	for i, t := range s.threads {
		if slices.ContainsFunc(t.Comments, func(c forge.Comment) bool { return c.ID == commentID }) {
			return &s.threads[i]
		}
	}
	return nil
}

// active returns the time of the last activity: the end of the latest run, or
// the newest comment.
func (s snapshot) active(last time.Time) time.Time {
	for _, c := range s.comments {
		if c.CreatedAt.After(last) {
			last = c.CreatedAt
		}
	}
	return last
}

// fingerprint identifies the state that was read. Each event changes it, even a
// replayed one, so an event always causes a full evaluation.
func (s snapshot) fingerprint(news int64) string {
	h := sha256.New()
	fmt.Fprintln(h, news, s.pull.HeadCommit, s.late)
	for _, c := range s.comments {
		fmt.Fprintln(h, c.ID)
	}
	for _, c := range s.checks {
		fmt.Fprintln(h, c.Name, c.State)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// closed journals that a pull request is no longer open, which ends its watch.
func (d *Desk) closed(ctx context.Context, w store.PullWatch, p forge.PullRequest) error {
	seen := &agent.PullRequestSeen{URL: w.URL, State: string(p.State), Title: p.Title, Draft: p.Draft}
	_, err := d.Journal.Append(ctx, store.Append{AgentID: w.AgentID, Events: []agent.Event{{Body: seen}}})
	return err
}
