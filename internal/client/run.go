package client

import (
	"context"
	"net/http"
	"time"
)

// Run is a run as the API shows it.
type Run struct {
	ID         string    `json:"id"`
	AgentID    string    `json:"agentId"`
	Status     string    `json:"status"` // CREATING, RUNNING, FINISHED, ERROR, CANCELLED, EXPIRED
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
	DurationMS *int64    `json:"durationMs,omitempty"` // once it has ended
	Result     string    `json:"result,omitempty"`
	Git        *Git      `json:"git,omitempty"`
	Error      *Failure  `json:"error,omitempty"`  // why it ended in ERROR or EXPIRED
	Limits     *Amount   `json:"limits,omitempty"` // at which it ends as EXPIRED
	Used       *Amount   `json:"used,omitempty"`   // of what is limited
}

// Statuses of a run that has ended.
const (
	Finished  = "FINISHED"
	Failed    = "ERROR"
	Cancelled = "CANCELLED"
	Expired   = "EXPIRED"
)

// Ended reports whether the run is over.
func (r Run) Ended() bool {
	switch r.Status {
	case Finished, Failed, Cancelled, Expired:
		return true
	}
	return false
}

// Git is where the work of a run is.
type Git struct {
	Branches []Branch `json:"branches"`
}

// Branch is a branch that was pushed.
type Branch struct {
	RepoURL string `json:"repoUrl"` // without its scheme
	Branch  string `json:"branch,omitempty"`
	PRURL   string `json:"prUrl,omitempty"`
}

// Failure is why a run could not go on.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// RunPage is a part of a list.
type RunPage struct {
	Items      []Run  `json:"items"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// CreateRun gives an agent its next prompt. key is as for [Client.CreateAgent].
func (c *Client) CreateRun(ctx context.Context, agentID string, p Prompt, key string) (Run, error) {
	return c.FollowUp(ctx, agentID, FollowUp{Prompt: p}, key)
}

// FollowUp is an agent's next prompt, and what it changes from then on.
type FollowUp struct {
	Prompt Prompt    `json:"prompt"`
	Mode   string    `json:"mode,omitempty"` // "plan", "agent", or as it was
	Model  *ModelRef `json:"model,omitempty"`
	Limits *Amount   `json:"limits,omitempty"` // of this run and those after it; as they were unless given
}

// FollowUp is CreateRun for a prompt that changes more.
func (c *Client) FollowUp(ctx context.Context, agentID string, in FollowUp, key string) (Run, error) {
	var out struct {
		Run Run `json:"run"`
	}
	err := c.callWith(ctx, http.MethodPost, agentPath(agentID)+"/runs", nil, in, &out, idempotency(key))
	return out.Run, err
}

// Runs returns a page of an agent's runs, newest first.
func (c *Client) Runs(ctx context.Context, agentID string, limit int, cursor string) (RunPage, error) {
	var out RunPage
	return out, c.call(ctx, http.MethodGet, agentPath(agentID)+"/runs", page(limit, cursor), &out)
}

// Run returns a run.
func (c *Client) Run(ctx context.Context, agentID, runID string) (Run, error) {
	var out Run
	return out, c.call(ctx, http.MethodGet, runPath(agentID, runID), nil, &out)
}

// Cancel asks a run to stop. One that has ended is 409 for the server.
func (c *Client) Cancel(ctx context.Context, agentID, runID string) error {
	return c.call(ctx, http.MethodPost, runPath(agentID, runID)+"/cancel", nil, nil)
}

func runPath(agentID, runID string) string { return agentPath(agentID) + "/runs/" + segment(runID) }
