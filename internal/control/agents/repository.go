package agents

import (
	"fmt"
	"slices"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// maxRepos is how many repositories an agent can work on.
const maxRepos = 20

// checkRepos validates the repositories of a request.
func (c *Creator) checkRepos(repos []Repository) ([]agent.Repo, error) {
	if len(repos) > maxRepos {
		return nil, fault.Invalid("has %d repositories; the limit is %d", len(repos), maxRepos).At("repos")
	}
	var out []agent.Repo
	for i, r := range repos {
		field := fmt.Sprintf("repos[%d]", i)
		repo, err := c.checkRepo(r, field)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o agent.Repo) bool { return secret.Repo(o.URL) == secret.Repo(repo.URL) }) {
			return nil, fault.Invalid("duplicate repository").At(field + ".url").Hint("list each repository once")
		}
		if r.StartingRef != nil {
			if repo.StartingRef = *r.StartingRef; !ValidRef(repo.StartingRef) {
				return nil, fault.Invalid("%s is not a valid branch, tag or commit", fault.Quoted(repo.StartingRef)).At(field + ".startingRef")
			}
		}
		out = append(out, repo)
	}
	return out, nil
}

// checkRepo validates the URL or the pull request of a repository.
func (c *Creator) checkRepo(r Repository, field string) (agent.Repo, error) {
	if r.PullRequest != nil {
		return c.checkPullRequest(r, field)
	}
	url, err := RepoURL(r.URL, c.AllowFile)
	if err != nil {
		return agent.Repo{}, fault.Of(err).At(field + ".url")
	}
	return agent.Repo{URL: url}, nil
}

// checkPullRequest returns the repository for an agent that starts on an existing
// pull request.
func (c *Creator) checkPullRequest(r Repository, field string) (agent.Repo, error) {
	switch {
	case r.StartingRef != nil:
		return agent.Repo{}, fault.Invalid("cannot be combined with prUrl: the agent starts from the branch of the pull request").Hint("omit one of the two").At(field + ".startingRef")
	case c.PullRequests == nil:
		return agent.Repo{}, forge.NotConfigured().At(field + ".prUrl")
	}
	if r.URL != "" {
		url, err := RepoURL(r.URL, c.AllowFile)
		if err != nil {
			return agent.Repo{}, fault.Of(err).At(field + ".url")
		}
		r.URL = url
	}
	url, err := c.PullRequests.RepoOf(r.URL, *r.PullRequest)
	if err != nil {
		return agent.Repo{}, fault.Of(err).At(field + ".prUrl")
	}
	return agent.Repo{URL: url, PullRequest: *r.PullRequest}, nil
}

// setTeamBase sets the team's base branch as the starting ref of each repository
// that the request names without a ref or a pull request. branch "" changes
// nothing.
func setTeamBase(repos []agent.Repo, branch string) {
	if branch == "" {
		return
	}
	for i := range repos {
		if r := &repos[i]; r.StartingRef == "" && r.PullRequest == "" {
			r.StartingRef, r.TeamBase = branch, true
		}
	}
}

// checkPullRequests validates how the agent opens pull requests.
func (c *Creator) checkPullRequests(o PullRequestOptions, repos []agent.Repo) (agent.PullRequestOptions, error) {
	out := agent.PullRequestOptions{Auto: o.Auto, Draft: o.Draft, SkipReviewers: o.SkipReviewers, AsApp: o.AsApp}
	if o.AsApp {
		const field = "openAsCursorGithubApp"
		if len(repos) == 0 {
			return out, fault.Invalid("is true, but the agent has no repository").Named(CodeNoRepository).At(field)
		}
		if err := c.checkForges(repos, PullRequests.CanAsApp); err != nil {
			return out, fault.Of(err).At(field)
		}
	}
	if o.Auto {
		const field = "autoCreatePR"
		if len(repos) == 0 {
			return out, fault.Invalid("requires a repository").Named(CodeNoRepository).At(field)
		}
		if err := c.checkForges(repos, PullRequests.Can); err != nil {
			return out, fault.Of(err).At(field)
		}
	}
	return out, nil
}

// checkForges calls check for each of the repositories. It fails if no forge is
// configured.
func (c *Creator) checkForges(repos []agent.Repo, check func(p PullRequests, repoURL string) error) error {
	if c.PullRequests == nil {
		return forge.NotConfigured()
	}
	for _, r := range repos {
		if err := check(c.PullRequests, r.URL); err != nil {
			return err
		}
	}
	return nil
}
