package agents

import (
	"fmt"
	"slices"

	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

type repoConfigJSON struct {
	_           struct{} `json:"-" additionalProperties:"true"`
	URL         string   `json:"url,omitempty" minLength:"1" doc:"https, http or ssh URL without credentials; default that of prUrl"`
	StartingRef *string  `json:"startingRef,omitempty" minLength:"1" doc:"branch, tag or commit; default the default branch"`
	PRURL       *string  `json:"prUrl,omitempty" format:"uri" doc:"pull request to continue: the agent starts from its branch, and with workOnCurrentBranch pushes to it"`
}

// maxRepos is how many repositories an agent can work on.
const maxRepos = 20

// repos validates the repositories of a request.
func (s *API) repos(in []repoConfigJSON) ([]agent.Repo, error) {
	if len(in) > maxRepos {
		return nil, fault.Invalid("has %d repositories; the limit is %d", len(in), maxRepos).At("repos")
	}
	var out []agent.Repo
	for i, r := range in {
		field := fmt.Sprintf("repos[%d]", i)
		var repo agent.Repo
		var err error
		if r.PRURL != nil {
			if repo, err = s.onPullRequest(r, field); err != nil {
				return nil, err
			}
		} else if repo.URL, err = rest.RepoURL(r.URL, s.AllowFile); err != nil {
			return nil, fault.Of(err).At(field + ".url")
		}
		u := repo.URL
		if slices.ContainsFunc(out, func(o agent.Repo) bool { return secret.Repo(o.URL) == secret.Repo(u) }) {
			return nil, fault.Invalid("duplicate repository").At(field + ".url").Hint("list each repository once")
		}
		if r.StartingRef != nil {
			if repo.StartingRef = *r.StartingRef; !rest.ValidRef(repo.StartingRef) {
				return nil, fault.Invalid("%s is not a valid branch, tag or commit", rest.Quoted(repo.StartingRef)).At(field + ".startingRef")
			}
		}
		out = append(out, repo)
	}
	return out, nil
}
