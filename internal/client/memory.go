package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Memory is what an agent has written down about a repository for later agents.
type Memory struct {
	ID         string          `json:"id"`
	Repository string          `json:"repository"`
	Status     string          `json:"status"` // approved, or proposed
	Title      string          `json:"title,omitempty"`
	Text       string          `json:"text,omitempty"`
	Proposal   *MemoryProposal `json:"proposal,omitempty"` // nil if nothing waits for approval
	Author     MemoryAuthor    `json:"author"`
	CreatedAt  time.Time       `json:"createdAt"`
	UpdatedAt  time.Time       `json:"updatedAt"`
	Revision   int64           `json:"revision"`
}

// MemoryProposal is a change of a memory by an agent that waits for a person.
type MemoryProposal struct {
	Action    string       `json:"action"` // create, update or delete
	Title     string       `json:"title,omitempty"`
	Text      string       `json:"text,omitempty"`
	Author    MemoryAuthor `json:"author"`
	CreatedAt time.Time    `json:"createdAt"`
}

// MemoryAuthor is the run that wrote a memory, and the person who edited or approved it.
type MemoryAuthor struct {
	AgentID string `json:"agentId,omitempty"`
	RunID   string `json:"runId,omitempty"`
	UserID  int64  `json:"userId,omitempty"`
}

// Memories is a list of memories.
type Memories struct {
	Repositories []string `json:"repositories"` // all with memories
	Items        []Memory `json:"items"`
	Truncated    bool     `json:"truncated"`
}

// Memories returns the memories of a repository; "" means all repositories.
func (c *Client) Memories(ctx context.Context, repository string) (out Memories, err error) {
	q := url.Values{}
	if repository != "" {
		q.Set("repository", repository)
	}
	return out, c.call(ctx, http.MethodGet, "/v1/memories", q, &out)
}

func memoryPath(id string) string { return "/v1/memories/" + url.PathEscape(id) }

// Memory returns a memory.
func (c *Client) Memory(ctx context.Context, id string) (out Memory, err error) {
	return out, c.call(ctx, http.MethodGet, memoryPath(id), nil, &out)
}

// UpdateMemory replaces the title and the text of a memory with the given revision. It
// also approves the memory.
func (c *Client) UpdateMemory(ctx context.Context, id string, revision int64, title, text string) (out Memory, err error) {
	in := map[string]any{"revision": revision, "title": title, "text": text}
	return out, c.callWith(ctx, request{method: http.MethodPatch, path: memoryPath(id), in: in}, &out)
}

// DecideMemory approves or rejects the proposed change of a memory with the given
// revision.
func (c *Client) DecideMemory(ctx context.Context, id string, revision int64, approve bool) error {
	path := memoryPath(id) + "/reject"
	if approve {
		path = memoryPath(id) + "/approve"
	}
	return c.callWith(ctx, request{method: http.MethodPost, path: path, in: map[string]any{"revision": revision}}, nil)
}

// DeleteMemory deletes a memory with the given revision.
func (c *Client) DeleteMemory(ctx context.Context, id string, revision int64) error {
	return c.call(ctx, http.MethodDelete, memoryPath(id), url.Values{"revision": {strconv.FormatInt(revision, 10)}}, nil)
}
