package client

import (
	"context"
	"net/http"
	"time"
)

// Retry says from where a conversation goes on anew.
type Retry struct {
	Turn   int       `json:"turn,omitempty"`  // the first reply that is replaced, from 1
	RunID  string    `json:"runId,omitempty"` // in place of it, a run that is begun anew; the latest unless given
	Prompt *Prompt   `json:"prompt,omitempty"`
	Model  *ModelRef `json:"model,omitempty"` // the agent's from now on
}

// Retried is what came of it.
type Retried struct {
	Run      Run `json:"run"`
	Turn     int `json:"turn"`
	Replaced int `json:"replaced"` // replies that are no longer part of the conversation
}

// RetryTurn takes a conversation back and begins a run there. key is as for
// [Client.CreateAgent].
func (c *Client) RetryTurn(ctx context.Context, agentID string, in Retry, key string) (out Retried, err error) {
	err = c.callWith(ctx, http.MethodPost, agentPath(agentID)+"/retry", nil, in, &out, idempotency(key))
	return out, err
}

// Queued says whether a prompt has begun its run.
type Queued struct {
	RunID   string `json:"runId"`
	Started bool   `json:"started"`
}

// QueuePrompt gives an agent a prompt for when it is free. key is as for
// [Client.CreateAgent].
func (c *Client) QueuePrompt(ctx context.Context, agentID string, p Prompt, key string) (out Queued, err error) {
	in := struct {
		Prompt Prompt `json:"prompt"`
	}{p}
	err = c.callWith(ctx, http.MethodPost, agentPath(agentID)+"/queue", nil, in, &out, idempotency(key))
	return out, err
}

// Waiting is a prompt that waits for the run before it to end.
type Waiting struct {
	RunID    string    `json:"runId"`
	Text     string    `json:"text"`
	Images   int       `json:"images,omitempty"`
	QueuedAt time.Time `json:"queuedAt"`
}

// Queue returns the prompts that wait, the next first.
func (c *Client) Queue(ctx context.Context, agentID string) ([]Waiting, error) {
	var out struct {
		Items []Waiting `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, agentPath(agentID)+"/queue", nil, &out)
}

// Unqueue takes a prompt back that waits.
func (c *Client) Unqueue(ctx context.Context, agentID, runID string) error {
	return c.call(ctx, http.MethodDelete, agentPath(agentID)+"/queue/"+segment(runID), nil, nil)
}
