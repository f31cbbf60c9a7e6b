package client

import (
	"context"
	"net/http"
	"time"
)

// Retry is a request to rewind a conversation and try again.
type Retry struct {
	Turn   int       `json:"turn,omitempty"`  // first model reply to replace, from 1
	RunID  string    `json:"runId,omitempty"` // run to repeat, instead of Turn; default the latest
	Prompt *Prompt   `json:"prompt,omitempty"`
	Model  *ModelRef `json:"model,omitempty"` // the agent's model from now on
}

// Retried is the result of a retry.
type Retried struct {
	Run      Run `json:"run"`
	Turn     int `json:"turn"`
	Replaced int `json:"replaced"` // number of replies removed from the conversation
}

// RetryTurn rewinds a conversation and starts a run there. key is an
// idempotency key, as for [Client.CreateAgent].
func (c *Client) RetryTurn(ctx context.Context, agentID string, in Retry, key string) (out Retried, err error) {
	err = c.callWith(ctx, request{method: http.MethodPost, path: agentPath(agentID) + "/retry", in: in, header: idempotency(key)}, &out)
	return out, err
}

// Queued is the result of queueing a prompt. It tells whether the prompt's run
// has started.
type Queued struct {
	RunID   string `json:"runId"`
	Started bool   `json:"started"`
}

// QueuePrompt queues a prompt until the agent is idle. key is an idempotency
// key, as for [Client.CreateAgent].
func (c *Client) QueuePrompt(ctx context.Context, agentID string, p Prompt, key string) (out Queued, err error) {
	in := struct {
		Prompt Prompt `json:"prompt"`
	}{p}
	err = c.callWith(ctx, request{method: http.MethodPost, path: agentPath(agentID) + "/queue", in: in, header: idempotency(key)}, &out)
	return out, err
}

// Waiting is a queued prompt.
type Waiting struct {
	RunID    string    `json:"runId"`
	Text     string    `json:"text"`
	Images   int       `json:"images,omitempty"`
	QueuedAt time.Time `json:"queuedAt"`
}

// Queue returns the queued prompts, next first.
func (c *Client) Queue(ctx context.Context, agentID string) ([]Waiting, error) {
	var out struct {
		Items []Waiting `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, agentPath(agentID)+"/queue", nil, &out)
}

// Unqueue removes a queued prompt.
func (c *Client) Unqueue(ctx context.Context, agentID, runID string) error {
	return c.call(ctx, http.MethodDelete, agentPath(agentID)+"/queue/"+segment(runID), nil, nil)
}
