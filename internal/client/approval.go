package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Approval is a question of an agent's that waits for an answer.
type Approval struct {
	ID      string `json:"id"`
	AgentID string `json:"agentId"`
	RunID   string `json:"runId"`
	CallID  string `json:"callId"`
	Tool    string `json:"tool"`
	Subject string `json:"subject"`
	// Subagent is whose call it is: its type, and what it works at; "" is the agent.
	Subagent string   `json:"subagent,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Why      string   `json:"why"`
	Entries  []string `json:"entries"`
	Change   string   `json:"change,omitempty"` // of a change to rules: what would stand there; of a plan: all of it, as Markdown
	// Questions are the agent's own, which are answered and not allowed.
	Questions []Question `json:"questions,omitempty"`
	AskedAt   time.Time  `json:"askedAt"`
	// Hidden is of lists where the team displays no summaries: [Client.Approval]
	// returns what is asked.
	Hidden bool       `json:"hidden,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
}

// Decisions of an [Answer].
const (
	AllowOnce   = "allow_once"
	AllowAgent  = "allow_agent"
	AllowAlways = "allow_always"
	Deny        = "deny"
	Answered    = "answer" // of questions
)

// Answer answers an approval.
type Answer struct {
	Decision string   `json:"decision"`
	Message  string   `json:"message,omitempty"`
	Entries  []string `json:"entries,omitempty"`
	Answers  []Reply  `json:"answers,omitempty"`
}

// Approvals returns what waits for the caller, oldest first.
func (c *Client) Approvals(ctx context.Context) ([]Approval, error) {
	var out struct {
		Items []Approval `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/approvals", nil, &out)
}

// Approval returns a question of an agent whole. One that does not wait any more
// is an error with the code not_found.
func (c *Client) Approval(ctx context.Context, agentID, id string) (Approval, error) {
	var out struct {
		Items []Approval `json:"items"`
	}
	if err := c.call(ctx, http.MethodGet, agentPath(agentID)+"/approvals", nil, &out); err != nil {
		return Approval{}, err
	}
	for _, q := range out.Items {
		if q.ID == id {
			return q, nil
		}
	}
	return Approval{}, &Error{Status: http.StatusNotFound, Code: "not_found", Message: "that question was answered, or its run has ended"}
}

// AnswerApproval answers a question; the first answer counts.
func (c *Client) AnswerApproval(ctx context.Context, agentID, id string, in Answer) error {
	return c.callWith(ctx, http.MethodPost, agentPath(agentID)+"/approvals/"+segment(id), url.Values{}, in, nil, nil)
}

// Rule is a file of rules for agents.
type Rule struct {
	Owner    string   `json:"owner"`
	Name     string   `json:"name"`
	Text     string   `json:"text"`
	Warnings []string `json:"warnings,omitempty"`
}

func rulePath(team bool, name string) string {
	if team {
		return "/v1/rules/team/" + segment(name)
	}
	return "/v1/rules/me/" + segment(name)
}

// Rule returns a file of rules of the caller's or the team's.
func (c *Client) Rule(ctx context.Context, team bool, name string) (Rule, error) {
	var out Rule
	return out, c.call(ctx, http.MethodGet, rulePath(team, name), nil, &out)
}

// SetRule keeps a file of rules; an empty one is removed.
func (c *Client) SetRule(ctx context.Context, team bool, name, text string) (Rule, error) {
	var out Rule
	return out, c.callWith(ctx, http.MethodPut, rulePath(team, name), url.Values{}, map[string]string{"text": text}, &out, nil)
}
