package pulls

import (
	"context"
	"fmt"
	"net/http"
	"unicode/utf8"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/forge"
	"aloft/internal/control/pull"
	"aloft/internal/fault"
)

// Pulls manages the pull requests of agents. Its methods are safe for
// concurrent use, and their errors are faults.
type Pulls interface {
	agents.PullRequests
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
	_           struct{}             `json:"-" additionalProperties:"true"`
	RepoURL     string               `json:"repoUrl" doc:"without its scheme"`
	Branch      string               `json:"branch"`
	Base        string               `json:"base,omitempty" doc:"branch to merge into"`
	URL         string               `json:"url,omitempty" format:"uri" doc:"absent if there is none"`
	Number      int64                `json:"number,omitempty"`
	Title       string               `json:"title,omitempty"`
	State       string               `json:"state,omitempty" enum:"open,closed,merged" doc:"as last fetched"`
	Draft       bool                 `json:"draft,omitempty"`
	Error       *rest.ErrorInnerJSON `json:"error,omitempty" doc:"why the last attempt to open or update it failed; the branch is pushed"`
	ReviewError *rest.ErrorInnerJSON `json:"reviewError,omitempty" doc:"why no reviewer could be asked; the next run that pushes asks again"`
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
	ChecksState string               `json:"checksState,omitempty" enum:"pending,success,failure,neutral" doc:"combined result of all checks; absent without checks"`
	Checks      []checkJSON          `json:"checks" nullable:"false" doc:"checks of its newest commit"`
	Review      string               `json:"review,omitempty" enum:"approved,changes_requested" doc:"combined newest verdicts of its reviewers while it is open; absent without verdicts"`
	OpenThreads int                  `json:"openThreads,omitempty" minimum:"0" doc:"unresolved review threads while it is open"`
	Unseen      *rest.ErrorInnerJSON `json:"unseen,omitempty" doc:"why the forge could not be reached; the state is then the last known one"`
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

func (s *API) pullRequestRoutes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/agents/{id}/pull-requests/proposal", ID: "proposePullRequest", Summary: "Generate the title and body of a pull request without opening it",
			Query:  []rest.Param{{Name: "repoUrl", Kind: "string", Words: "one of the agent's repositories; default the first with pushed commits"}},
			Status: 200, Out: proposedPullRequestJSON{}, Handle: s.proposePullRequest},
		{Method: "POST", Path: "/v1/agents/{id}/pull-requests", ID: "createPullRequest", Summary: "Open a pull request for an agent's branch, or update the existing one",
			In: createPullRequestRequestJSON{}, Status: 201, Out: PullRequest{}, Handle: s.createPullRequest},
		{Method: "GET", Path: "/v1/agents/{id}/pull-requests", ID: "listPullRequests", Summary: "List an agent's pull requests with their checks, at most a few seconds old",
			Status: 200, Out: listPullRequestsResponseJSON{}, Handle: s.listPullRequests},
	}
}

func (s *API) createPullRequest(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	var in createPullRequestRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
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
	case options.Base != "" && !agents.ValidRef(options.Base):
		return fault.Invalid("%s is not a valid branch name", fault.Quoted(options.Base)).At("base")
	case s.Pulls == nil:
		return forge.NotConfigured()
	}
	p, err := s.Pulls.ByHand(r.Context(), who.UserID, a.ID, repo, options)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, PullRequestOf(p))
}

// repoOf returns the agent's repository with the given URL. The URL may lack
// its scheme, as in replies. An unknown URL is returned unchanged.
func repoOf(a agent.Agent, url string) string {
	for _, of := range a.Repos {
		if rest.WithoutScheme(of.URL) == url {
			return of.URL
		}
	}
	return url
}

func (s *API) proposePullRequest(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	if s.Pulls == nil {
		return forge.NotConfigured()
	}
	p, err := s.Pulls.Proposal(r.Context(), a.ID, repoOf(a, r.URL.Query().Get("repoUrl")))
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, proposedPullRequestJSON{RepoURL: rest.WithoutScheme(p.RepoURL), Branch: p.Branch, Base: p.Base, Title: p.Title, Body: p.Body})
}

func (s *API) listPullRequests(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
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
		one := pullRequestStatusJSON{PullRequest: PullRequestOf(p.PullRequest), ChecksState: string(forge.Verdict(p.Checks)), Checks: []checkJSON{}, OpenThreads: p.Review.Threads}
		if v := p.Review.Verdict; v == forge.Approved || v == forge.ChangesRequested {
			one.Review = string(v)
		}
		for _, c := range p.Checks {
			one.Checks = append(one.Checks, checkJSON{Name: c.Name, State: string(c.State), Summary: c.Summary, URL: c.URL})
		}
		if p.Unseen != nil {
			one.Unseen = rest.FailureOf(p.Unseen)
		}
		out.Items = append(out.Items, one)
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

// PullRequestOf returns a pull request in the API's form.
func PullRequestOf(p agent.PullRequest) PullRequest {
	out := PullRequest{
		RepoURL: rest.WithoutScheme(p.RepoURL), Branch: p.Branch, Base: p.Base, URL: p.URL, Number: p.Number, Title: p.Title, State: p.State, Draft: p.Draft,
	}
	if p.Failure != nil {
		out.Error = rest.FailureOf(p.Failure)
	}
	if p.ReviewFailure != nil && p.State == string(forge.Open) {
		out.ReviewError = rest.FailureOf(p.ReviewFailure)
	}
	return out
}

// PullRequestsOf returns pull requests in the API's form.
func PullRequestsOf(all []agent.PullRequest) (out []PullRequest) {
	for _, p := range all {
		out = append(out, PullRequestOf(p))
	}
	return out
}
