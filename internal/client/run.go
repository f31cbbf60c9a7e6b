package client

import (
	"context"
	"net/http"
	"time"
)

// Run is a run as the API returns it.
type Run struct {
	ID         string    `json:"id"`
	AgentID    string    `json:"agentId"`
	Status     string    `json:"status"` // CREATING, RUNNING, FINISHED, ERROR, CANCELLED, EXPIRED
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
	DurationMS *int64    `json:"durationMs,omitempty"` // set once the run has ended
	Result     string    `json:"result,omitempty"`
	Git        *Git      `json:"git,omitempty"`
	Error      *Failure  `json:"error,omitempty"`   // why the run ended as ERROR or EXPIRED
	Limits     *Amount   `json:"limits,omitempty"`  // when the run reaches a limit, it ends as EXPIRED
	Used       *Amount   `json:"used,omitempty"`    // usage of the limited resources
	Outcome    string    `json:"outcome,omitempty"` // done, partly, blocked, gave_up or limit; "" until it ends
	Evidence   *Evidence `json:"evidence,omitempty"`
}

// Evidence lists the facts from which the outcome of a run is derived.
type Evidence struct {
	Checks []CheckResult `json:"checks"`         // results of the last round
	Goal   *GoalVerdict  `json:"goal,omitempty"` // nil if the run had no goal
	Rounds int           `json:"rounds,omitempty"`
	Stale  bool          `json:"stale,omitempty"` // whether the pushed commit differs from the checked commit

	Bugfixes []Bugfix `json:"bugfixes,omitempty"`
}

// Bugfix is an agent's report about one bug.
type Bugfix struct {
	ID          string `json:"id"`
	Title       string `json:"title,omitempty"`
	Verdict     string `json:"verdict"` // fixed, not_a_bug or not_fixed
	Explanation string `json:"explanation,omitempty"`
}

// GoalVerdict is a second model's verdict on the goal of a run.
type GoalVerdict struct {
	Goal    string `json:"goal"`
	Met     bool   `json:"met"`
	Missing string `json:"missing,omitempty"`
	Failure string `json:"failure,omitempty"` // why there is no verdict
}

// CheckResult is the result of a check.
type CheckResult struct {
	Command    string `json:"command"`
	State      string `json:"state"`              // passed, failed, not_run or lost
	ExitCode   *int   `json:"exitCode,omitempty"` // nil unless the command exited by itself
	DurationMS int64  `json:"durationMs,omitempty"`
	Output     string `json:"output,omitempty"` // end of the output
}

// Final statuses of a run.
const (
	Finished  = "FINISHED"
	Failed    = "ERROR"
	Cancelled = "CANCELLED"
	Expired   = "EXPIRED"
)

// Ended reports whether the run has ended.
func (r Run) Ended() bool {
	switch r.Status {
	case Finished, Failed, Cancelled, Expired:
		return true
	}
	return false
}

// Git lists the branches that a run has pushed.
type Git struct {
	Branches []Branch `json:"branches"`
}

// Branch is a pushed branch.
type Branch struct {
	RepoURL string `json:"repoUrl"` // without its scheme
	Branch  string `json:"branch,omitempty"`
	PRURL   string `json:"prUrl,omitempty"`
}

// Failure is the reason why a run failed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// RunPage is a page of runs.
type RunPage struct {
	Items      []Run  `json:"items"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// CreateRun sends an agent a follow-up prompt. key is an idempotency key, as
// for [Client.CreateAgent].
func (c *Client) CreateRun(ctx context.Context, agentID string, p Prompt, key string) (Run, error) {
	return c.FollowUp(ctx, agentID, FollowUp{Prompt: p}, key)
}

// FollowUp is a follow-up prompt with changed settings.
type FollowUp struct {
	Prompt Prompt    `json:"prompt"`
	Mode   string    `json:"mode,omitempty"` // "plan" or "agent"; "" means unchanged
	Model  *ModelRef `json:"model,omitempty"`
	Limits *Amount   `json:"limits,omitempty"` // limits of this and later runs; nil means unchanged
	Checks []string  `json:"checks,omitzero"`  // checks of this and later runs; nil means unchanged
	Goal   *string   `json:"goal,omitempty"`   // goal of this and later runs; nil means unchanged, "" means none
}

// FollowUp is like CreateRun but can also change the agent's settings.
func (c *Client) FollowUp(ctx context.Context, agentID string, in FollowUp, key string) (Run, error) {
	var out struct {
		Run Run `json:"run"`
	}
	err := c.callWith(ctx, request{method: http.MethodPost, path: agentPath(agentID) + "/runs", in: in, header: idempotency(key)}, &out)
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

// Cancel stops a run. If the run has ended, the server answers 409.
func (c *Client) Cancel(ctx context.Context, agentID, runID string) error {
	return c.call(ctx, http.MethodPost, runPath(agentID, runID)+"/cancel", nil, nil)
}

func runPath(agentID, runID string) string { return agentPath(agentID) + "/runs/" + segment(runID) }
