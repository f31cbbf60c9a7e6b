package client

import (
	"context"
	"net/http"
	"net/url"
)

// PullRequest describes one of an agent's branches and its pull request.
type PullRequest struct {
	RepoURL     string   `json:"repoUrl"` // without its scheme
	Branch      string   `json:"branch"`
	Base        string   `json:"base,omitempty"`
	URL         string   `json:"url,omitempty"` // "" if there is no pull request
	Number      int64    `json:"number,omitempty"`
	Title       string   `json:"title,omitempty"`
	State       string   `json:"state,omitempty"` // open, closed, merged
	Draft       bool     `json:"draft,omitempty"`
	Error       *Failure `json:"error,omitempty"`       // why the last attempt to open or update it failed
	ReviewError *Failure `json:"reviewError,omitempty"` // why no reviewer could be asked
	ChecksState string   `json:"checksState,omitempty"`
	Checks      []Check  `json:"checks,omitempty"`
	Review      string   `json:"review,omitempty"`      // approved, changes_requested
	OpenThreads int      `json:"openThreads,omitempty"` // unresolved review threads
	Unseen      *Failure `json:"unseen,omitempty"`      // why the forge could not be reached
}

// Check is the result of one of a commit's checks.
type Check struct {
	Name    string `json:"name"`
	State   string `json:"state"` // pending, success, failure, neutral
	Summary string `json:"summary,omitempty"`
	URL     string `json:"url,omitempty"`
}

// NewPullRequest is a request to open a pull request. The server chooses empty fields.
type NewPullRequest struct {
	RepoURL string `json:"repoUrl,omitempty"`
	Title   string `json:"title,omitempty"`
	Body    string `json:"body,omitempty"`
	Base    string `json:"base,omitempty"`
	Draft   bool   `json:"draft,omitempty"`
}

// PullRequests returns an agent's pull requests with their checks.
func (c *Client) PullRequests(ctx context.Context, agentID string) ([]PullRequest, error) {
	var out struct {
		Items []PullRequest `json:"items"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/agents/"+segment(agentID)+"/pull-requests", nil, &out)
	return out.Items, err
}

// ProposePullRequest returns the values that the server would choose for
// [Client.OpenPullRequest]. repoURL is one of the agent's repositories; ""
// means the first with pushed commits.
func (c *Client) ProposePullRequest(ctx context.Context, agentID, repoURL string) (out NewPullRequest, err error) {
	query := url.Values{}
	if repoURL != "" {
		query.Set("repoUrl", repoURL)
	}
	err = c.callWith(ctx, request{method: http.MethodGet, path: "/v1/agents/" + segment(agentID) + "/pull-requests/proposal", query: query}, &out)
	return out, err
}

// OpenPullRequest opens a pull request for an agent's branch, or updates the
// existing one. key is an idempotency key, as for [Client.CreateAgent].
func (c *Client) OpenPullRequest(ctx context.Context, agentID string, in NewPullRequest, key string) (out PullRequest, err error) {
	err = c.callWith(ctx, request{method: http.MethodPost, path: "/v1/agents/" + segment(agentID) + "/pull-requests", in: in, header: idempotency(key)}, &out)
	return out, err
}
