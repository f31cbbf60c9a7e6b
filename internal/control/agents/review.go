package agents

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/fault"
	"aloft/internal/patch"
)

// checkReview validates the change to review, and returns nil if the request
// has none. The agent starts at the base commit of a pull request, so that the
// pull request cannot change the rules and the environment of its own review.
func (c *Creator) checkReview(ctx context.Context, q *Request, repos []agent.Repo) (*agent.ReviewTask, error) {
	if q.Review == nil {
		return nil, nil // nothing to review
	}
	switch {
	case q.PullRequest.Auto || q.WorkOnCurrentBranch || q.BranchName != nil || q.Mode != nil || q.Checks != nil || q.Goal != nil || q.Environment != nil && q.Environment.Preset != "":
		return nil, fault.Invalid("cannot be combined with autoCreatePR, workOnCurrentBranch, branchName, mode, checks, goal or env.preset").At("review").
			Hint("a review changes nothing; omit the others")
	case len(repos) != 1 || repos[0].PullRequest != "":
		return nil, fault.Invalid("needs exactly one repository, by its url").At("review")
	case q.Review.PullRequest != nil:
		task, base, err := c.PullRequests.Reviewable(ctx, repos[0].URL, *q.Review.PullRequest)
		if err != nil {
			if fault.Has(err) {
				err = fault.Of(err).At("review.pullRequest")
			}
			return nil, err
		}
		repos[0].StartingRef = base
		return task, nil
	}
	diff := *q.Review.Patch
	if len(diff) > patch.Max {
		return nil, fault.Invalid("has %d bytes; must have at most %d", len(diff), patch.Max).At("review.patch").Hint("review a part of the change")
	}
	if _, err := patch.Parse(diff); err != nil {
		return nil, fault.Invalid("is not the output of git diff: %v", err).At("review.patch")
	}
	return &agent.ReviewTask{Patch: diff}, nil
}

// reviewedRepo sets the repository of a request to review a pull request.
// Before it contacts the repository's forge, it checks that the caller may run
// agents on the repository.
func (c *Creator) reviewedRepo(ctx context.Context, q *Request) error {
	if q.Review == nil {
		return nil
	}
	switch {
	case (q.Review.Patch == nil) == (q.Review.PullRequest == nil):
		return fault.Invalid("must have either patch or pullRequest").At("review")
	case q.Review.PullRequest == nil:
		return nil
	case q.Repos != nil:
		return fault.Invalid("cannot be combined with review.pullRequest, which names the repository").Hint("omit one of the two").At("repos")
	case c.PullRequests == nil:
		return forge.NotConfigured().At("review.pullRequest")
	}
	url, err := c.PullRequests.RepoOf("", *q.Review.PullRequest)
	if err != nil {
		return fault.Of(err).At("review.pullRequest")
	}
	q.Repos = []Repository{{URL: url}}
	repos, err := c.checkRepos(q.Repos)
	if err != nil {
		return err
	}
	return MayReach(ctx, c.Rules, q.By, repos)
}
