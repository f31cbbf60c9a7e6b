package pull

import (
	"context"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
)

// reviewWaits are the delays between attempts to request a review in the
// background. They are short, because the end of a run waits for them.
var reviewWaits = []time.Duration{time.Second, 4 * time.Second, 15 * time.Second, 30 * time.Second}

// unfinished reports whether an earlier Open opened the pull request but did
// not journal its result, or did not request reviews. The link to the agent in
// the pull request's body identifies it.
func (d *Desk) unfinished(a agent.Agent, asked agent.PullRequestAsked, p forge.PullRequest) bool {
	was := a.PullRequest(asked.RepoURL, asked.Branch)
	return (was == nil || was.URL != p.URL || was.ReviewFailure != nil) && strings.Contains(p.Body, d.Link(a.ID))
}

// review requests reviews from the agent's reviewers, with retries while the
// host does not answer. A repeated request has no effect: see
// [forge.Reviewing]. If the request fails, the pull request stays open without
// reviewers, and review logs the error and returns it for the journal.
func (d *Desk) review(ctx context.Context, f forge.Forge, r forge.Repo, a agent.Agent, asked agent.PullRequestAsked, p forge.PullRequest) *agent.Failure {
	reviewing, ok := f.(forge.Reviewing)
	if !ok || a.Pull.SkipReviewers || p.Draft || d.Reviewers == nil {
		return nil
	}
	logins, err := d.Reviewers(ctx, a, r.Host)
	// The owner of the token has opened the pull request, and no host accepts
	// its author as a reviewer.
	logins = slices.DeleteFunc(logins, func(login string) bool { return strings.EqualFold(login, p.Author) })
	if err == nil && len(logins) > 0 {
		within := reviewWaits
		if asked.By == agent.PullByPerson {
			within = waits
		}
		err = retry(ctx, within, func() error { return reviewing.RequestReview(ctx, r, p.Number, logins) })
	}
	if err == nil {
		return nil
	}
	d.Logger.WarnContext(ctx, "nobody was asked to review a pull request", "agent", a.ID, "url", p.URL, "error", err)
	why := FailureOf(err)
	why.Message = "No reviewer was asked: " + why.Message
	return &why
}
