package client

import (
	"context"
	"net/http"
)

// Context describes what an agent's model is given besides the prompts.
type Context struct {
	Tokens  int           `json:"tokens"` // tokens of the rules that the model was given
	Rules   []AgentRule   `json:"rules"`
	LeftOut []LeftOutRule `json:"leftOut"`
}

// AgentRule is a rule for an agent's work.
type AgentRule struct {
	Source      string   `json:"source"`
	Kind        string   `json:"kind"` // rule, skill or command
	From        string   `json:"from"` // team, repository or user
	When        string   `json:"when"` // always, files, request or mention
	Folder      string   `json:"folder,omitempty"`
	Globs       []string `json:"globs,omitempty"`
	Description string   `json:"description,omitempty"`
	Imports     []string `json:"imports,omitempty"`
	Tokens      int      `json:"tokens"`
	Given       string   `json:"given"` // yes, offered or no
}

// LeftOutRule is a rule file, or a part of a rule file, that is not used.
type LeftOutRule struct {
	Source string `json:"source"`
	Why    string `json:"why"`
}

// Context returns what an agent's model is given besides the prompts.
func (c *Client) Context(ctx context.Context, agentID string) (Context, error) {
	var out Context
	return out, c.call(ctx, http.MethodGet, agentPath(agentID)+"/context", nil, &out)
}
