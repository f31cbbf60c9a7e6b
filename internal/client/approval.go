package client

import (
	"context"
	"net/http"
	"time"
)

// Approval is an agent's pending request for approval or for answers to questions.
type Approval struct {
	ID      string `json:"id"`
	AgentID string `json:"agentId"`
	RunID   string `json:"runId"`
	CallID  string `json:"callId"`
	Tool    string `json:"tool"`
	Subject string `json:"subject"`
	// Subagent is the type and the task of the subagent that asks; "" for the agent
	// itself.
	Subagent string   `json:"subagent,omitempty"`
	Folder   string   `json:"folder,omitempty"` // the working directory of a shell command, if the call names one
	Reason   string   `json:"reason,omitempty"`
	Why      string   `json:"why"`
	Entries  []string `json:"entries"`
	Change   string   `json:"change,omitempty"` // for a change to a file, the new content; for a pull request, its description; for a plan, the whole plan as Markdown
	// Questions are the agent's own questions, which need an answer instead of
	// permission.
	Questions []Question `json:"questions,omitempty"`
	AskedAt   time.Time  `json:"askedAt"`
	// Hidden is set in lists if the team hides summaries. [Client.Approval] returns the
	// request in full.
	Hidden bool       `json:"hidden,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
}

// Decisions of an [Answer].
const (
	AllowOnce   = "allow_once"
	AllowAgent  = "allow_agent"
	AllowAlways = "allow_always"
	Deny        = "deny"
	Answered    = "answer" // the decision for questions
)

// Answer answers an approval.
type Answer struct {
	Decision string   `json:"decision"`
	Message  string   `json:"message,omitempty"`
	Entries  []string `json:"entries,omitempty"`
	Answers  []Reply  `json:"answers,omitempty"`
}

// Approvals returns the requests waiting for the caller, oldest first.
func (c *Client) Approvals(ctx context.Context) ([]Approval, error) {
	var out struct {
		Items []Approval `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/approvals", nil, &out)
}

// Approval returns a pending request of an agent in full. If it is no longer pending,
// the error has the code not_found.
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
	return Approval{}, &Error{Status: http.StatusNotFound, Code: "not_found", Message: "this request has been answered, or its run has ended"}
}

// AnswerApproval answers a request. If others answer, too, the first answer
// counts.
func (c *Client) AnswerApproval(ctx context.Context, agentID, id string, in Answer) error {
	return c.callWith(ctx, request{method: http.MethodPost, path: agentPath(agentID) + "/approvals/" + segment(id), in: in}, nil)
}

// Rule is a rule file for agents.
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

// Rule returns a rule file of the caller or the team.
func (c *Client) Rule(ctx context.Context, team bool, name string) (Rule, error) {
	var out Rule
	return out, c.call(ctx, http.MethodGet, rulePath(team, name), nil, &out)
}

// SetRule stores a rule file. Empty text removes it.
func (c *Client) SetRule(ctx context.Context, team bool, name, text string) (Rule, error) {
	var out Rule
	return out, c.callWith(ctx, request{method: http.MethodPut, path: rulePath(team, name), in: map[string]string{"text": text}}, &out)
}
