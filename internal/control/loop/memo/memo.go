// Package memo runs the calls of UpdateMemory in a run.
package memo

import (
	"context"
	"encoding/json"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// Tool is the tool with which agents write down memories.
const Tool = "UpdateMemory"

// Memories stores what agents write down about repositories. Its methods are safe for
// concurrent use.
type Memories interface {
	// Unavailable returns what the agent lacks to write memories, or "".
	Unavailable(ctx context.Context, s *agent.State) (needs string, err error)
	// Update runs a call of UpdateMemory. It may run more than once.
	Update(ctx context.Context, c conversation.ToolCall, s *agent.State) (tool.Result, error)
}

// A Desk runs the calls of one run. [Desk.Open] must return before its other methods are
// called, which are then safe for concurrent use.
type Desk struct {
	Memories    Memories // nil stores nothing
	HoldsSecret func(s *agent.State, text string) bool

	needs string
}

// Open determines whether the agent may write memories in this run.
func (d *Desk) Open(ctx context.Context, s *agent.State) (err error) {
	if d.needs = "the team's setting memory"; d.Memories != nil {
		d.needs, err = d.Memories.Unavailable(ctx, s)
	}
	return err
}

// Needs returns what the agent lacks to write memories, or "".
func (d *Desk) Needs() string { return d.needs }

// Update runs a call of UpdateMemory, unless it contains a secret.
func (d *Desk) Update(ctx context.Context, c conversation.ToolCall, s *agent.State) (tool.Result, error) {
	var in struct {
		Title string `json:"title"`
		Text  string `json:"knowledge_to_store"`
	}
	if json.Unmarshal(c.Args, &in) == nil && d.HoldsSecret(s, in.Title+"\n"+in.Text) {
		return tool.Failed("the memory contains a secret, so it was not stored: write it without the secret"), nil
	}
	return d.Memories.Update(ctx, c, s)
}
