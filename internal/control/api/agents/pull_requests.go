package agents

import (
	"aloft/internal/agent"
	"aloft/internal/control/api/pulls"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

// pullRequestOptions returns the pull request settings of a request for a new agent.
func (s *API) pullRequestOptions(in *createAgentRequestJSON, repos []agent.Repo) (agent.PullRequestOptions, error) {
	w := agent.PullRequestOptions{Auto: in.AutoCreatePR, Draft: in.DraftPR, SkipReviewers: in.SkipReviewerRequest, AsApp: in.OpenAsCursorGithubApp}
	if err := s.asApp(in, repos); err != nil {
		return w, err
	}
	if !in.AutoCreatePR {
		return w, nil
	}
	if len(repos) == 0 {
		return w, fault.Invalid("requires a repository").Named(rest.CodeNoRepository).At("autoCreatePR")
	}
	if s.pulls.Pulls == nil {
		return w, fault.Of(pulls.ErrNoPulls()).At("autoCreatePR")
	}
	for _, r := range repos {
		if err := s.pulls.Pulls.Can(r.URL); err != nil {
			return w, fault.Of(err).At("autoCreatePR")
		}
	}
	return w, nil
}

// asApp returns a fault if the request wants pull requests opened as a GitHub
// App and none is configured.
func (s *API) asApp(in *createAgentRequestJSON, repos []agent.Repo) error {
	switch {
	case !in.OpenAsCursorGithubApp:
		return nil
	case len(repos) == 0:
		return fault.Invalid("is true, but the agent has no repository").Named(rest.CodeNoRepository).At("openAsCursorGithubApp")
	case s.pulls.Pulls == nil:
		return fault.Of(pulls.ErrNoPulls()).At("openAsCursorGithubApp")
	}
	for _, r := range repos {
		if err := s.pulls.Pulls.CanAsApp(r.URL); err != nil {
			return fault.Of(err).At("openAsCursorGithubApp")
		}
	}
	return nil
}

// onPullRequest returns the repository for an agent that starts on an existing
// pull request.
func (s *API) onPullRequest(in repoConfigJSON, field string) (agent.Repo, error) {
	switch {
	case in.StartingRef != nil:
		return agent.Repo{}, fault.Invalid("cannot be combined with prUrl: the agent starts from the branch of the pull request").Hint("omit one of the two").At(field + ".startingRef")
	case s.pulls.Pulls == nil:
		return agent.Repo{}, fault.Of(pulls.ErrNoPulls()).At(field + ".prUrl")
	}
	if in.URL != "" {
		u, err := rest.RepoURL(in.URL, s.AllowFile)
		if err != nil {
			return agent.Repo{}, fault.Of(err).At(field + ".url")
		}
		in.URL = u
	}
	url, err := s.pulls.Pulls.RepoOf(in.URL, *in.PRURL)
	if err != nil {
		return agent.Repo{}, fault.Of(err).At(field + ".prUrl")
	}
	return agent.Repo{URL: url, PullRequest: *in.PRURL}, nil
}
