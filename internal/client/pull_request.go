package client

import (
	"context"
	"net/http"
	"net/url"
)

// PullRequest is one of an agent's branches at its forge.
type PullRequest struct {
	RepoURL     string   `json:"repoUrl"` // without its scheme
	Branch      string   `json:"branch"`
	Base        string   `json:"base,omitempty"`
	URL         string   `json:"url,omitempty"` // "" while there is none
	Number      int64    `json:"number,omitempty"`
	Title       string   `json:"title,omitempty"`
	State       string   `json:"state,omitempty"` // open, closed, merged
	Draft       bool     `json:"draft,omitempty"`
	Error       *Failure `json:"error,omitempty"` // why it was not opened or changed, when that was tried last
	ChecksState string   `json:"checksState,omitempty"`
	Checks      []Check  `json:"checks,omitempty"`
	Unseen      *Failure `json:"unseen,omitempty"` // why the forge could not be asked
}

// Check is what one of a commit's checks says.
type Check struct {
	Name    string `json:"name"`
	State   string `json:"state"` // pending, success, failure, neutral
	Summary string `json:"summary,omitempty"`
	URL     string `json:"url,omitempty"`
}

// NewPullRequest is a pull request to be opened; what is empty is the server's
// choice.
type NewPullRequest struct {
	RepoURL string `json:"repoUrl,omitempty"`
	Title   string `json:"title,omitempty"`
	Body    string `json:"body,omitempty"`
	Base    string `json:"base,omitempty"`
	Draft   bool   `json:"draft,omitempty"`
}

// PullRequests returns an agent's, with their checks.
func (c *Client) PullRequests(ctx context.Context, agentID string) ([]PullRequest, error) {
	var out struct {
		Items []PullRequest `json:"items"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/agents/"+segment(agentID)+"/pull-requests", nil, &out)
	return out.Items, err
}

// ProposePullRequest returns what [Client.OpenPullRequest] asks for where nothing
// is wished for. repoURL is one of the agent's repositories; "" is the first that
// has something pushed.
func (c *Client) ProposePullRequest(ctx context.Context, agentID, repoURL string) (out NewPullRequest, err error) {
	query := url.Values{}
	if repoURL != "" {
		query.Set("repoUrl", repoURL)
	}
	err = c.callWith(ctx, http.MethodGet, "/v1/agents/"+segment(agentID)+"/pull-requests/proposal", query, nil, &out, nil)
	return out, err
}

// OpenPullRequest opens the pull request of an agent's branch, or changes the one
// there is. key is as for [Client.CreateAgent].
func (c *Client) OpenPullRequest(ctx context.Context, agentID string, in NewPullRequest, key string) (out PullRequest, err error) {
	err = c.callWith(ctx, http.MethodPost, "/v1/agents/"+segment(agentID)+"/pull-requests", nil, in, &out, idempotency(key))
	return out, err
}
