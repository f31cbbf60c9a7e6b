package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Agent is an agent as the API returns it.
type Agent struct {
	ID                  string        `json:"id"`
	Name                string        `json:"name,omitempty"`
	Status              string        `json:"status"` // ACTIVE, ARCHIVED
	Env                 Env           `json:"env,omitzero"`
	URL                 string        `json:"url,omitempty"`
	CreatedAt           time.Time     `json:"createdAt"`
	UpdatedAt           time.Time     `json:"updatedAt"`
	LatestRunID         string        `json:"latestRunId,omitempty"`
	Repos               []Repo        `json:"repos,omitempty"`
	WorkOnCurrentBranch bool          `json:"workOnCurrentBranch,omitempty"`
	Paused              bool          `json:"paused,omitempty"`
	RunStatus           string        `json:"runStatus,omitempty"` // status of the latest run; see [Run]
	Doing               string        `json:"doing,omitempty"`     // current activity, or why the run failed
	Limits              *Amount       `json:"limits,omitempty"`    // limits of the latest run; see [Run]
	Used                *Amount       `json:"used,omitempty"`      // usage of the latest run; see [Run]
	Waiting             int           `json:"waitingApprovals,omitempty"`
	DeletedAt           *time.Time    `json:"deletedAt,omitempty"`    // when the agent will be deleted unless it is used
	RunMode             string        `json:"runMode,omitempty"`      // not in lists
	Approvals           []Approval    `json:"approvals,omitempty"`    // not in lists
	CursorIgnore        []string      `json:"cursorIgnore,omitempty"` // not in lists
	Ports               []Port        `json:"ports,omitempty"`        // not in lists
	PullRequests        []PullRequest `json:"pullRequests,omitempty"` // state as last fetched from the forge
	Machine             string        `json:"machine,omitempty"`      // booting, ready, hibernated or lost
	Hibernation         string        `json:"hibernation,omitempty"`  // live or disk, if hibernated
}

// Repo is a repository that an agent works on.
type Repo struct {
	URL         string `json:"url,omitempty"`
	PRURL       string `json:"prUrl,omitempty"` // pull request to continue
	StartingRef string `json:"startingRef,omitempty"`
}

// Port is a named port of an agent's environment.
type Port struct {
	Port uint16 `json:"port"`
	Name string `json:"name,omitempty"`
}

// Prompt is the prompt of a run.
type Prompt struct {
	Text   string  `json:"text"`
	Images []Image `json:"images,omitempty"`
}

// Image is an image in a prompt.
type Image struct {
	Data     []byte `json:"data"`
	MIMEType string `json:"mimeType"`
}

// ModelRef names a model of the server.
type ModelRef struct {
	ID     string       `json:"id"`
	Params []ModelParam `json:"params,omitempty"`
}

// ModelParam is the value of a model parameter.
type ModelParam struct {
	ID    string `json:"id"`
	Value string `json:"value"`
}

// NewAgent is a request to create an agent.
type NewAgent struct {
	AgentID             string    `json:"agentId,omitempty"` // bc-<uuid>; chosen by the server if empty
	Prompt              Prompt    `json:"prompt"`
	Model               *ModelRef `json:"model,omitempty"`
	Name                string    `json:"name,omitempty"`
	Repos               []Repo    `json:"repos,omitempty"`
	Env                 *Env      `json:"env,omitempty"`
	WorkOnCurrentBranch bool      `json:"workOnCurrentBranch,omitempty"`
	AutoCreatePR        bool      `json:"autoCreatePR,omitempty"` // open a pull request at the end of each run
	DraftPR             bool      `json:"draftPR,omitempty"`      // open it as a draft
	RunMode             string    `json:"runMode,omitempty"`
	Mode                string    `json:"mode,omitempty"`       // "plan": make no changes until the plan is approved
	BranchName          string    `json:"branchName,omitempty"` // branch to create; chosen by the server if empty
	Webhook             *Webhook  `json:"webhook,omitempty"`
	Limits              *Amount   `json:"limits,omitempty"` // limits of each run
	Class               string    `json:"class,omitempty"`  // isolation class of the machine: "strong", or "" for the server's default
	Checks              []string  `json:"checks,omitempty"` // commands that must pass on the pushed commit
	Goal                string    `json:"goal,omitempty"`   // the goal of the run, which a second model judges
	Review              *Review   `json:"review,omitempty"` // a change to review
}

// Review is a change for an agent to review.
type Review struct {
	Patch       string `json:"patch,omitempty"`       // as git diff prints it, against the starting ref
	PullRequest string `json:"pullRequest,omitempty"` // URL of a pull request, instead of a patch and a repository
}

// Finding is a finding of a review at lines of a change.
type Finding struct {
	ID         string `json:"id"`
	Path       string `json:"path"`
	Line       int    `json:"line"`
	EndLine    int    `json:"endLine"`
	OldSide    bool   `json:"oldSide,omitempty"` // whether the lines are removed by the change
	Severity   string `json:"severity"`          // low, medium or high
	Title      string `json:"title"`
	Body       string `json:"body"`
	Suggestion string `json:"suggestion,omitempty"` // text to replace the lines
}

// PostedReview is the result of posting a review to a pull request.
type PostedReview struct {
	PullRequest string   `json:"pullRequest"` // URL of the pull request
	Commit      string   `json:"commit"`
	URL         string   `json:"url,omitempty"`   // URL of the review
	Error       string   `json:"error,omitempty"` // why the review was not posted
	Remarks     []string `json:"remarks,omitempty"`
}

// Findings returns an agent's findings about the change that it reviews, and
// the result of posting them, or nil if they were not to be posted.
func (c *Client) Findings(ctx context.Context, id string) ([]Finding, *PostedReview, error) {
	var out struct {
		Findings []Finding     `json:"findings"`
		Posted   *PostedReview `json:"posted"`
	}
	err := c.call(ctx, http.MethodGet, agentPath(id)+"/findings", nil, &out)
	return out.Findings, out.Posted, err
}

// AgentPage is a page of agents.
type AgentPage struct {
	Items      []Agent `json:"items"`
	NextCursor string  `json:"nextCursor,omitempty"`
}

// CreateAgent creates an agent and starts its first run. key, unless empty, is an
// idempotency key: repeating the request does not create a second agent.
func (c *Client) CreateAgent(ctx context.Context, in NewAgent, key string) (Agent, Run, error) {
	var out struct {
		Agent Agent `json:"agent"`
		Run   Run   `json:"run"`
	}
	err := c.callWith(ctx, request{method: http.MethodPost, path: "/v1/agents", in: in, header: idempotency(key)}, &out)
	return out.Agent, out.Run, err
}

// AgentFilter selects agents to list. Zero fields match every agent.
type AgentFilter struct {
	Archived   bool   // whether to include archived agents
	Everybody  bool   // whether to include other members' agents that the caller may see
	UserID     int64  // only this member's agents
	Search     string // words of the id, name, model or repositories
	Repository string // URL, or the end of a URL: owner/name
	Status     string // comma-separated: asks, needs-you, working, finished, failed, stopped, archived
	From, To   string // days or times, RFC 3339
	AsksFirst  bool   // list agents waiting for an answer first, instead of newest first
}

// Agents returns a page of agents, newest first. An empty cursor returns the first page.
func (c *Client) Agents(ctx context.Context, limit int, cursor string, archived bool) (AgentPage, error) {
	return c.FindAgents(ctx, limit, cursor, AgentFilter{Archived: archived})
}

// FindAgents is like Agents but returns only agents that match f.
func (c *Client) FindAgents(ctx context.Context, limit int, cursor string, f AgentFilter) (AgentPage, error) {
	q := page(limit, cursor)
	q.Set("includeArchived", strconv.FormatBool(f.Archived))
	if f.Everybody {
		q.Set("all", "true")
	}
	if f.UserID != 0 {
		q.Set("user", strconv.FormatInt(f.UserID, 10))
	}
	for name, value := range map[string]string{"search": f.Search, "repository": f.Repository, "status": f.Status, "from": f.From, "to": f.To} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.AsksFirst {
		q.Set("order", "asks-first")
	}
	var out AgentPage
	return out, c.call(ctx, http.MethodGet, "/v1/agents", q, &out)
}

// Agent returns an agent.
func (c *Client) Agent(ctx context.Context, id string) (Agent, error) {
	var out Agent
	return out, c.call(ctx, http.MethodGet, agentPath(id), nil, &out)
}

// DeleteAgent deletes an agent with all its data.
func (c *Client) DeleteAgent(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, agentPath(id), nil, nil)
}

// Archive archives an agent.
func (c *Client) Archive(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, agentPath(id)+"/archive", nil, nil)
}

// Unarchive restores an archived agent.
func (c *Client) Unarchive(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, agentPath(id)+"/unarchive", nil, nil)
}

// Diff is an agent's changes in the format of git diff.
type Diff struct {
	Diff      string `json:"diff"`
	Truncated bool   `json:"truncated,omitempty"` // whether the diff was truncated
}

// Diff returns an agent's changes.
func (c *Client) Diff(ctx context.Context, id string) (Diff, error) {
	var out Diff
	return out, c.call(ctx, http.MethodGet, agentPath(id)+"/diff", nil, &out)
}

// Tokens counts tokens by kind.
type Tokens struct {
	InputTokens      int64 `json:"inputTokens"` // without cache reads and writes
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens"`
	CacheWriteTokens int64 `json:"cacheWriteTokens"`
}

// TokenUsage counts tokens, with their sum and cost.
type TokenUsage struct {
	Tokens
	TotalTokens int64 `json:"totalTokens"`
	Cost
}

// Cost is the cost of the tokens whose prices are known.
type Cost struct {
	USD      *float64 `json:"costUsd,omitempty"`        // nil if no price is known
	Unpriced int64    `json:"unpricedTokens,omitempty"` // number of tokens that USD does not include
}

// Add returns the sum of c and d.
func (c Cost) Add(d Cost) Cost {
	sum := Cost{c.USD, c.Unpriced + d.Unpriced}
	if d.USD != nil {
		usd := *d.USD
		if c.USD != nil {
			usd += *c.USD
		}
		sum.USD = &usd
	}
	return sum
}

// String formats the cost: "unknown", "$1.20", or "$1.20 and more".
func (c Cost) String() string {
	if c.USD == nil {
		return "unknown"
	}
	s := fmt.Sprintf("$%.2f", *c.USD)
	if *c.USD > 0 && *c.USD < 0.01 {
		s = fmt.Sprintf("$%.4f", *c.USD)
	}
	if c.Unpriced > 0 {
		s += " and more"
	}
	return s
}

// Journal is a summary of an agent's journal.
type Journal struct {
	Head  int64      `json:"head"` // the number of the last event
	Turns int        `json:"turns"`
	Usage TokenUsage `json:"usage"`
	Todos []Todo     `json:"todos"`
}

// Todo is an item of an agent's to-do list.
type Todo struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Status  string `json:"status"` // pending, in_progress, completed, cancelled
}

// Journal returns a summary of an agent's journal.
func (c *Client) Journal(ctx context.Context, id string) (Journal, error) {
	var out Journal
	return out, c.call(ctx, http.MethodGet, agentPath(id)+"/journal", nil, &out)
}

func agentPath(id string) string { return "/v1/agents/" + segment(id) }

func page(limit int, cursor string) url.Values {
	q := url.Values{}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return q
}

func idempotency(key string) http.Header {
	if key == "" {
		return nil
	}
	return http.Header{"Idempotency-Key": {key}}
}
