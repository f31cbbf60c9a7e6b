package pull

import (
	"context"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
)

// reviewWaits are the waits between the tries to ask for a review where nobody
// waits for the answer. The end of a run does not wait longer than these.
var reviewWaits = []time.Duration{time.Second, 4 * time.Second, 15 * time.Second, 30 * time.Second}

// unfinished reports whether an earlier Open opened the pull request and ended
// before its answer was journaled, perhaps before anybody was asked to review, or
// could ask nobody. The link to the agent in its body says who opened it.
func (d *Desk) unfinished(a agent.Agent, asked agent.PullRequestAsked, p forge.PullRequest) bool {
	was := a.PullRequest(asked.RepoURL, asked.Branch)
	return (was == nil || was.URL != p.URL || was.ReviewFailure != nil) && strings.Contains(p.Body, d.Link(a.ID))
}

// review asks the agent's people, again while the host does not answer. A repeat
// asks nobody anew: see [forge.Reviewing]. A failure leaves the pull request open
// without reviewers: it is logged, and returned to be journaled and shown.
func (d *Desk) review(ctx context.Context, f forge.Forge, r forge.Repo, a agent.Agent, asked agent.PullRequestAsked, p forge.PullRequest) *agent.Failure {
	reviewing, ok := f.(forge.Reviewing)
	if !ok || a.Pull.SkipReviewers || p.Draft || d.Reviewers == nil {
		return nil
	}
	logins, err := d.Reviewers(ctx, a, r.Host)
	// Whose token it is has opened it, and no host lets them review it.
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
