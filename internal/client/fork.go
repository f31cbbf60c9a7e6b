package client

import (
	"context"
	"net/http"
)

// NewFork is a request to fork an agent. Prompts, with one prompt per fork, may replace
// Prompt and N.
type NewFork struct {
	N       int       `json:"n,omitempty"`
	Prompt  *Prompt   `json:"prompt,omitempty"`
	Prompts []Prompt  `json:"prompts,omitempty"`
	Turn    int       `json:"turn,omitempty"` // number of the model's reply, from 1; 0 means the last
	Model   *ModelRef `json:"model,omitempty"`
}

// Fork is the result of forking an agent.
type Fork struct {
	Turn  int    `json:"turn"`
	Disk  bool   `json:"disk"` // whether the forks have a copy of the machine's disk instead of the pushed state
	Live  bool   `json:"live"` // whether the forks also have a copy of the processes
	Items []Made `json:"items"`
}

// Made is a new agent with its first run.
type Made struct {
	Agent Agent `json:"agent"`
	Run   Run   `json:"run"`
}

// ForkAgent creates agents that continue from an agent's current or earlier
// state. A repeated request with the same key returns the first reply again.
func (c *Client) ForkAgent(ctx context.Context, id string, in NewFork, key string) (out Fork, err error) {
	err = c.callWith(ctx, request{method: http.MethodPost, path: agentPath(id) + "/fork", in: in, header: idempotency(key)}, &out)
	return out, err
}

// Snapshot saves the disk of an agent's machine.
func (c *Client) Snapshot(ctx context.Context, id string) (snapshotID string, err error) {
	var out struct {
		ID string `json:"id"`
	}
	err = c.call(ctx, http.MethodPost, agentPath(id)+"/snapshots", nil, &out)
	return out.ID, err
}
