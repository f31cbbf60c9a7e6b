package api

import (
	"context"
	"fmt"
	"net/http"
	"unicode/utf8"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/pull"
	"aloft/internal/fault"
)

// Pulls manages the pull requests of agents. Its methods are safe for
// concurrent use, and their errors are faults.
type Pulls interface {
	// Can returns nil if a forge is configured for the repository.
	Can(repoURL string) error
	// CanAsApp returns nil if a GitHub App is configured for the repository.
	CanAsApp(repoURL string) error
	// RepoOf returns the URL of the repository to clone for a pull request. If
	// repoURL is not "", the pull request must belong to that repository. The
	// error says which of the two is wrong.
	RepoOf(repoURL, prURL string) (string, error)
	// Proposal returns the values that ByHand uses for fields that the request
	// leaves out.
	Proposal(ctx context.Context, agentID, repoURL string) (agent.PullRequestAsked, error)
	// ByHand opens a pull request for an agent's branch, or updates the
	// existing one.
	ByHand(ctx context.Context, userID int64, agentID, repoURL string, w pull.Options) (agent.PullRequest, error)
	// List returns the state of an agent's pull requests.
	List(ctx context.Context, a agent.Agent) ([]pull.Status, error)
}

// Limits of a pull request's title and body.
const (
	maxPullTitle = 250    // characters; every forge accepts this many
	maxPullBody  = 60_000 // bytes
)

// PullRequest is the pull request of one of an agent's branches.
type PullRequest struct {
	_           struct{}        `json:"-" additionalProperties:"true"`
	RepoURL     string          `json:"repoUrl" doc:"without its scheme"`
	Branch      string          `json:"branch"`
	Base        string          `json:"base,omitempty" doc:"branch to merge into"`
	URL         string          `json:"url,omitempty" format:"uri" doc:"absent if there is none"`
	Number      int64           `json:"number,omitempty"`
	Title       string          `json:"title,omitempty"`
	State       string          `json:"state,omitempty" enum:"open,closed,merged" doc:"as last fetched"`
	Draft       bool            `json:"draft,omitempty"`
	Error       *errorInnerJSON `json:"error,omitempty" doc:"why the last attempt to open or update it failed; the branch is pushed"`
	ReviewError *errorInnerJSON `json:"reviewError,omitempty" doc:"why no reviewer could be asked; the next run that pushes asks again"`
}

type checkJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Name    string   `json:"name"`
	State   string   `json:"state" enum:"pending,success,failure,neutral"`
	Summary string   `json:"summary,omitempty"`
	URL     string   `json:"url,omitempty" format:"uri"`
}

type pullRequestStatusJSON struct {
	_ struct{} `json:"-" additionalProperties:"true"`
	PullRequest
	ChecksState string          `json:"checksState,omitempty" enum:"pending,success,failure,neutral" doc:"combined result of all checks; absent without checks"`
	Checks      []checkJSON     `json:"checks" nullable:"false" doc:"checks of its newest commit"`
	Unseen      *errorInnerJSON `json:"unseen,omitempty" doc:"why the forge could not be reached; the state is then the last known one"`
}

type listPullRequestsResponseJSON struct {
	_     struct{}                `json:"-" additionalProperties:"true"`
	Items []pullRequestStatusJSON `json:"items" nullable:"false"`
}

type createPullRequestRequestJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	RepoURL *string  `json:"repoUrl,omitempty" minLength:"1" doc:"one of the agent's repositories; default the first with pushed commits"`
	Title   *string  `json:"title,omitempty" maxLength:"250" doc:"default generated from the commits"`
	Body    *string  `json:"body,omitempty" doc:"Markdown, at most 60,000 bytes; default generated from the agent's last message and the project's template"`
	Base    *string  `json:"base,omitempty" minLength:"1" doc:"branch to merge into; default the branch that the agent started from"`
	Draft   bool     `json:"draft,omitempty" default:"false"`
}

type proposedPullRequestJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	RepoURL string   `json:"repoUrl" doc:"without its scheme"`
	Branch  string   `json:"branch"`
	Base    string   `json:"base" doc:"branch to merge into"`
	Title   string   `json:"title"`
	Body    string   `json:"body" doc:"Markdown"`
}

func (s *server) pullRequestRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/agents/{id}/pull-requests/proposal", id: "proposePullRequest", summary: "Generate the title and body of a pull request without opening it",
			query:  []param{{name: "repoUrl", kind: "string", words: "one of the agent's repositories; default the first with pushed commits"}},
			status: 200, out: proposedPullRequestJSON{}, handle: s.proposePullRequest},
		{method: "POST", path: "/v1/agents/{id}/pull-requests", id: "createPullRequest", summary: "Open a pull request for an agent's branch, or update the existing one",
			in: createPullRequestRequestJSON{}, status: 201, out: PullRequest{}, handle: s.createPullRequest},
		{method: "GET", path: "/v1/agents/{id}/pull-requests", id: "listPullRequests", summary: "List an agent's pull requests with their checks, at most a few seconds old",
			status: 200, out: listPullRequestsResponseJSON{}, handle: s.listPullRequests},
	}
}

func errNoPulls() error {
	return fault.Invalid("no forge is configured on this server").Named(forge.CodeNotConfigured).Hint("add the host's URL and a token to git.credentials in the configuration")
}

func (s *server) createPullRequest(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var in createPullRequestRequestJSON
	if err := readBody(w, r, &in); err != nil {
		return err
	}
	options := pull.Options{Draft: in.Draft}
	for into, from := range map[*string]*string{&options.Title: in.Title, &options.Body: in.Body, &options.Base: in.Base} {
		if from != nil {
			*into = *from
		}
	}
	repo := ""
	if in.RepoURL != nil {
		repo = repoOf(a, *in.RepoURL)
	}
	switch {
	case utf8.RuneCountInString(options.Title) > maxPullTitle:
		return fault.Invalid("must have at most %d characters", maxPullTitle).At("title")
	case len(options.Body) > maxPullBody:
		return fault.Invalid("must have at most %d bytes", maxPullBody).At("body")
	case options.Base != "" && !validRef(options.Base):
		return fault.Invalid("%s is not a valid branch name", quoted(options.Base)).At("base")
	case s.Pulls == nil:
		return errNoPulls()
	}
	p, err := s.Pulls.ByHand(r.Context(), who.UserID, a.ID, repo, options)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, pullRequestOf(p))
}

// repoOf returns the agent's repository with the given URL, which may lack its
// scheme as in replies. An unknown URL is returned unchanged.
func repoOf(a agent.Agent, url string) string {
	for _, of := range a.Repos {
		if withoutScheme(of.URL) == url {
			return of.URL
		}
	}
	return url
}

func (s *server) proposePullRequest(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	if s.Pulls == nil {
		return errNoPulls()
	}
	p, err := s.Pulls.Proposal(r.Context(), a.ID, repoOf(a, r.URL.Query().Get("repoUrl")))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, proposedPullRequestJSON{RepoURL: withoutScheme(p.RepoURL), Branch: p.Branch, Base: p.Base, Title: p.Title, Body: p.Body})
}

func (s *server) listPullRequests(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var all []pull.Status
	if s.Pulls != nil {
		if all, err = s.Pulls.List(r.Context(), a); err != nil {
			return fmt.Errorf("look at the pull requests of %s: %w", a.ID, err)
		}
	} else {
		for _, p := range a.PullRequests {
			all = append(all, pull.Status{PullRequest: p})
		}
	}
	out := listPullRequestsResponseJSON{Items: []pullRequestStatusJSON{}}
	for _, p := range all {
		one := pullRequestStatusJSON{PullRequest: pullRequestOf(p.PullRequest), ChecksState: string(forge.Verdict(p.Checks)), Checks: []checkJSON{}}
		for _, c := range p.Checks {
			one.Checks = append(one.Checks, checkJSON{Name: c.Name, State: string(c.State), Summary: c.Summary, URL: c.URL})
		}
		if p.Unseen != nil {
			one.Unseen = failureOf(p.Unseen)
		}
		out.Items = append(out.Items, one)
	}
	return writeJSON(w, http.StatusOK, out)
}

func pullRequestOf(p agent.PullRequest) PullRequest {
	out := PullRequest{
		RepoURL: withoutScheme(p.RepoURL), Branch: p.Branch, Base: p.Base, URL: p.URL, Number: p.Number, Title: p.Title, State: p.State, Draft: p.Draft,
	}
	if p.Failure != nil {
		out.Error = failureOf(p.Failure)
	}
	if p.ReviewFailure != nil && p.State == string(forge.Open) {
		out.ReviewError = failureOf(p.ReviewFailure)
	}
	return out
}

func pullRequestsOf(all []agent.PullRequest) (out []PullRequest) {
	for _, p := range all {
		out = append(out, pullRequestOf(p))
	}
	return out
}

// pullRequestOptions returns the pull request settings of a request for a new agent.
func (s *server) pullRequestOptions(in *createAgentRequestJSON, repos []agent.Repo) (agent.PullRequestOptions, error) {
	w := agent.PullRequestOptions{Auto: in.AutoCreatePR, Draft: in.DraftPR, SkipReviewers: in.SkipReviewerRequest, AsApp: in.OpenAsCursorGithubApp}
	if err := s.asApp(in, repos); err != nil {
		return w, err
	}
	if !in.AutoCreatePR {
		return w, nil
	}
	if len(repos) == 0 {
		return w, fault.Invalid("requires a repository").Named(codeNoRepository).At("autoCreatePR")
	}
	if s.Pulls == nil {
		return w, fault.Of(errNoPulls()).At("autoCreatePR")
	}
	for _, r := range repos {
		if err := s.Pulls.Can(r.URL); err != nil {
			return w, fault.Of(err).At("autoCreatePR")
		}
	}
	return w, nil
}

// asApp returns a fault if the request wants pull requests opened as a GitHub
// App and none is configured.
func (s *server) asApp(in *createAgentRequestJSON, repos []agent.Repo) error {
	switch {
	case !in.OpenAsCursorGithubApp:
		return nil
	case len(repos) == 0:
		return fault.Invalid("is true, but the agent has no repository").Named(codeNoRepository).At("openAsCursorGithubApp")
	case s.Pulls == nil:
		return fault.Of(errNoPulls()).At("openAsCursorGithubApp")
	}
	for _, r := range repos {
		if err := s.Pulls.CanAsApp(r.URL); err != nil {
			return fault.Of(err).At("openAsCursorGithubApp")
		}
	}
	return nil
}

// onPullRequest returns the repository for an agent that starts on an existing
// pull request.
func (s *server) onPullRequest(in repoConfigJSON, field string) (agent.Repo, error) {
	switch {
	case in.StartingRef != nil:
		return agent.Repo{}, fault.Invalid("cannot be combined with prUrl: the agent starts from the branch of the pull request").Hint("omit one of the two").At(field + ".startingRef")
	case s.Pulls == nil:
		return agent.Repo{}, fault.Of(errNoPulls()).At(field + ".prUrl")
	}
	if in.URL != "" {
		u, err := repoURL(in.URL, s.AllowFile)
		if err != nil {
			return agent.Repo{}, fault.Of(err).At(field + ".url")
		}
		in.URL = u
	}
	url, err := s.Pulls.RepoOf(in.URL, *in.PRURL)
	if err != nil {
		return agent.Repo{}, fault.Of(err).At(field + ".prUrl")
	}
	return agent.Repo{URL: url, PullRequest: *in.PRURL}, nil
}
