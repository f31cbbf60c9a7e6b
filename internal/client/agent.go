package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Agent is an agent as the API shows it.
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
	RunStatus           string        `json:"runStatus,omitempty"` // of the latest run, as in [Run]
	Doing               string        `json:"doing,omitempty"`     // what it does now, or why its run failed
	Limits              *Amount       `json:"limits,omitempty"`    // of the latest run, as in [Run]
	Used                *Amount       `json:"used,omitempty"`      // likewise
	Waiting             int           `json:"waitingApprovals,omitempty"`
	DeletedAt           *time.Time    `json:"deletedAt,omitempty"`    // unless somebody touches it before
	RunMode             string        `json:"runMode,omitempty"`      // not in lists
	Approvals           []Approval    `json:"approvals,omitempty"`    // not in lists
	CursorIgnore        []string      `json:"cursorIgnore,omitempty"` // not in lists
	Ports               []Port        `json:"ports,omitempty"`        // not in lists
	PullRequests        []PullRequest `json:"pullRequests,omitempty"` // as they were seen last
	Machine             string        `json:"machine,omitempty"`      // booting, ready, hibernated or lost
	Hibernation         string        `json:"hibernation,omitempty"`  // live or disk, of one that is hibernated
}

// Repo is a repository that an agent works on.
type Repo struct {
	URL         string `json:"url,omitempty"`
	PRURL       string `json:"prUrl,omitempty"` // a pull request to go on with
	StartingRef string `json:"startingRef,omitempty"`
}

// Port is one that an agent's environment names.
type Port struct {
	Port uint16 `json:"port"`
	Name string `json:"name,omitempty"`
}

// Prompt is what a run is asked.
type Prompt struct {
	Text   string  `json:"text"`
	Images []Image `json:"images,omitempty"`
}

// Image is a picture in a prompt.
type Image struct {
	Data     []byte `json:"data"`
	MIMEType string `json:"mimeType"`
}

// ModelRef names a model of the server.
type ModelRef struct {
	ID     string       `json:"id"`
	Params []ModelParam `json:"params,omitempty"`
}

// ModelParam is a value of one of a model's parameters.
type ModelParam struct {
	ID    string `json:"id"`
	Value string `json:"value"`
}

// NewAgent is what an agent is made of.
type NewAgent struct {
	AgentID             string    `json:"agentId,omitempty"` // bc-<uuid>; the server's choice if empty
	Prompt              Prompt    `json:"prompt"`
	Model               *ModelRef `json:"model,omitempty"`
	Name                string    `json:"name,omitempty"`
	Repos               []Repo    `json:"repos,omitempty"`
	Env                 *Env      `json:"env,omitempty"`
	WorkOnCurrentBranch bool      `json:"workOnCurrentBranch,omitempty"`
	AutoCreatePR        bool      `json:"autoCreatePR,omitempty"` // open a pull request at the end of each run
	DraftPR             bool      `json:"draftPR,omitempty"`      // as a draft
	RunMode             string    `json:"runMode,omitempty"`
	Mode                string    `json:"mode,omitempty"`       // "plan": it changes nothing before its plan is approved
	BranchName          string    `json:"branchName,omitempty"` // of the branch to make; the server's choice if empty
	Webhook             *Webhook  `json:"webhook,omitempty"`
	Limits              *Amount   `json:"limits,omitempty"` // of each of its runs
	Class               string    `json:"class,omitempty"`  // of the machine's isolation: "strong", or the server's own
}

// AgentPage is a part of a list.
type AgentPage struct {
	Items      []Agent `json:"items"`
	NextCursor string  `json:"nextCursor,omitempty"`
}

// CreateAgent makes an agent and starts its first run. key, unless empty, lets
// the request be repeated without making a second agent.
func (c *Client) CreateAgent(ctx context.Context, in NewAgent, key string) (Agent, Run, error) {
	var out struct {
		Agent Agent `json:"agent"`
		Run   Run   `json:"run"`
	}
	err := c.callWith(ctx, http.MethodPost, "/v1/agents", nil, in, &out, idempotency(key))
	return out.Agent, out.Run, err
}

// AgentFilter says which agents to list; what is zero narrows nothing.
type AgentFilter struct {
	Archived   bool   // archived ones too
	Everybody  bool   // others' too, as far as the caller may see them
	UserID     int64  // of this person only
	Search     string // words of the id, name, model or repositories
	Repository string // an address, or how one ends: owner/name
	Status     string // asks, needs-you, working, finished, failed, stopped, archived; with commas between them
	From, To   string // days or times, RFC 3339
	AsksFirst  bool   // agents that wait for an answer before the others, instead of newest first
}

// Agents returns a page of the list of agents, newest first. An empty cursor is
// the first page.
func (c *Client) Agents(ctx context.Context, limit int, cursor string, archived bool) (AgentPage, error) {
	return c.FindAgents(ctx, limit, cursor, AgentFilter{Archived: archived})
}

// FindAgents is Agents of those that a filter leaves.
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

// DeleteAgent removes an agent and all that is kept of it.
func (c *Client) DeleteAgent(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, agentPath(id), nil, nil)
}

// Archive files an agent away.
func (c *Client) Archive(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, agentPath(id)+"/archive", nil, nil)
}

// Unarchive brings an agent back.
func (c *Client) Unarchive(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, agentPath(id)+"/unarchive", nil, nil)
}

// Diff is what an agent has changed, as git writes it.
type Diff struct {
	Diff      string `json:"diff"`
	Truncated bool   `json:"truncated,omitempty"` // there is more
}

// Diff returns what an agent has changed.
func (c *Client) Diff(ctx context.Context, id string) (Diff, error) {
	var out Diff
	return out, c.call(ctx, http.MethodGet, agentPath(id)+"/diff", nil, &out)
}

// TokenUsage counts tokens.
type TokenUsage struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheWriteTokens int64 `json:"cacheWriteTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens"`
	TotalTokens      int64 `json:"totalTokens"`
	Cost
}

// Cost is what tokens cost, as far as their prices were known.
type Cost struct {
	USD      *float64 `json:"costUsd,omitempty"`        // nil where no price was known
	Unpriced int64    `json:"unpricedTokens,omitempty"` // tokens that USD leaves out
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

// String is the cost in words: "unknown", "$1.20", or "$1.20 and more".
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

// Usage is what an agent has used, in all and by run.
type Usage struct {
	TotalUsage TokenUsage `json:"totalUsage"`
	Runs       []struct {
		ID    string     `json:"id"`
		Usage TokenUsage `json:"usage"`
	} `json:"runs"`
}

// Usage counts an agent's tokens.
func (c *Client) Usage(ctx context.Context, id string) (Usage, error) {
	var out Usage
	return out, c.call(ctx, http.MethodGet, agentPath(id)+"/usage", nil, &out)
}

// Journal is what an agent's journal comes to.
type Journal struct {
	Head  int64      `json:"head"` // the number of the last event
	Turns int        `json:"turns"`
	Usage TokenUsage `json:"usage"`
	Todos []Todo     `json:"todos"`
}

// Todo is an item of an agent's own list of what is to be done.
type Todo struct {
	ID      string `json:"id"`
	Content string `json:"content"`
	Status  string `json:"status"` // pending, in_progress, completed, cancelled
}

// Journal sums an agent's journal up.
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
