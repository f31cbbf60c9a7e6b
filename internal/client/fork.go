package client

import (
	"context"
	"net/http"
)

// NewFork says which agents to make of another. Prompts, one for each, may stand
// in place of Prompt and N.
type NewFork struct {
	N       int       `json:"n,omitempty"`
	Prompt  *Prompt   `json:"prompt,omitempty"`
	Prompts []Prompt  `json:"prompts,omitempty"`
	Turn    int       `json:"turn,omitempty"` // of the model's replies, from 1; 0 is the last
	Model   *ModelRef `json:"model,omitempty"`
}

// Fork is what was made.
type Fork struct {
	Turn  int    `json:"turn"`
	Disk  bool   `json:"disk"` // with a copy of the machine's disk; otherwise with what was pushed then
	Live  bool   `json:"live"` // and its processes
	Items []Made `json:"items"`
}

// Made is an agent with its first run.
type Made struct {
	Agent Agent `json:"agent"`
	Run   Run   `json:"run"`
}

// ForkAgent makes agents that go on from where an agent is, or was. A repeated
// key gets the first reply again.
func (c *Client) ForkAgent(ctx context.Context, id string, in NewFork, key string) (out Fork, err error) {
	err = c.callWith(ctx, http.MethodPost, agentPath(id)+"/fork", nil, in, &out, idempotency(key))
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
