package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Automation is a definition that starts agents.
type Automation struct {
	ID        string            `json:"id"`
	Spec      json.RawMessage   `json:"spec"`
	State     string            `json:"state"` // draft, active, paused
	Reason    string            `json:"reason,omitempty"`
	UserID    int64             `json:"userId"`
	CreatedBy int64             `json:"createdBy"`
	Source    *AutomationSource `json:"source,omitempty"`
	Version   int64             `json:"version"`
	NextAt    *time.Time        `json:"nextAt,omitempty"`
	Failures  int               `json:"failures"`
	CreatedAt time.Time         `json:"createdAt"`
	UpdatedAt time.Time         `json:"updatedAt"`
}

// AutomationSource is the file that defines an automation.
type AutomationSource struct {
	Repository string `json:"repository"`
	Path       string `json:"path"`
	Commit     string `json:"commit"`
}

// AutomationStart is one start of an automation.
type AutomationStart struct {
	ID           string          `json:"id"`
	AutomationID string          `json:"automationId"`
	State        string          `json:"state"`
	Reason       string          `json:"reason,omitempty"`
	Trigger      string          `json:"trigger"` // schedule, event, manual
	EventID      string          `json:"eventId,omitempty"`
	UserID       int64           `json:"userId,omitempty"`
	AgentID      string          `json:"agentId,omitempty"`
	RunID        string          `json:"runId,omitempty"`
	Inputs       json.RawMessage `json:"inputs,omitempty"`
	Result       string          `json:"result,omitempty"`
	Cost         float64         `json:"cost,omitempty"` // in US dollars
	ScheduledAt  *time.Time      `json:"scheduledAt,omitempty"`
	CreatedAt    time.Time       `json:"createdAt"`
	StartedAt    *time.Time      `json:"startedAt,omitempty"`
	EndedAt      *time.Time      `json:"endedAt,omitempty"`
}

// AutomationTrial is what an automation would do.
type AutomationTrial struct {
	Accepted bool   `json:"accepted"`
	Reason   string `json:"reason,omitempty"`
	Prompt   string `json:"prompt,omitempty"`
}

// AutomationChange changes the fields that are not empty.
type AutomationChange struct {
	Spec   json.RawMessage `json:"spec,omitempty"`
	State  string          `json:"state,omitempty"`
	UserID int64           `json:"userId,omitempty"`
}

const automationsPath = "/v1/automations"

// Automations returns the newest 100 automations, of all people if all is set.
func (c *Client) Automations(ctx context.Context, all bool) ([]Automation, error) {
	var out struct {
		Items []Automation `json:"items"`
	}
	q := url.Values{"limit": {"100"}}
	if all {
		q.Set("all", "true")
	}
	return out.Items, c.call(ctx, http.MethodGet, automationsPath, q, &out)
}

// Automation returns an automation.
func (c *Client) Automation(ctx context.Context, id string) (a Automation, err error) {
	return a, c.call(ctx, http.MethodGet, automationsPath+"/"+segment(id), nil, &a)
}

// CreateAutomation creates an automation. The zero state is active.
func (c *Client) CreateAutomation(ctx context.Context, n AutomationChange) (a Automation, err error) {
	return a, c.callWith(ctx, request{method: http.MethodPost, path: automationsPath, in: n}, &a)
}

// UpdateAutomation changes an automation.
func (c *Client) UpdateAutomation(ctx context.Context, id string, n AutomationChange) (a Automation, err error) {
	return a, c.callWith(ctx, request{method: http.MethodPatch, path: automationsPath + "/" + segment(id), in: n}, &a)
}

// DeleteAutomation deletes an automation with its history.
func (c *Client) DeleteAutomation(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, automationsPath+"/"+segment(id), nil, nil)
}

// StartAutomation starts an automation, or adds a start to its backlog.
func (c *Client) StartAutomation(ctx context.Context, id string, inputs map[string]any, later bool) (s AutomationStart, err error) {
	in := map[string]any{"later": later}
	if len(inputs) > 0 {
		in["inputs"] = inputs
	}
	return s, c.callWith(ctx, request{method: http.MethodPost, path: automationsPath + "/" + segment(id) + "/starts", in: in}, &s)
}

// TryAutomation returns what an automation would do for an event, or by hand if
// eventID is "".
func (c *Client) TryAutomation(ctx context.Context, id, eventID string, inputs map[string]any) (t AutomationTrial, err error) {
	in := map[string]any{"eventId": eventID}
	if len(inputs) > 0 {
		in["inputs"] = inputs
	}
	return t, c.callWith(ctx, request{method: http.MethodPost, path: automationsPath + "/" + segment(id) + "/try", in: in}, &t)
}

// AutomationStarts returns the newest 100 starts of an automation.
func (c *Client) AutomationStarts(ctx context.Context, id string) ([]AutomationStart, error) {
	var out struct {
		Items []AutomationStart `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, automationsPath+"/"+segment(id)+"/starts", url.Values{"limit": {"100"}}, &out)
}

// PromoteAutomationStart starts an entry of the backlog.
func (c *Client) PromoteAutomationStart(ctx context.Context, id, startID string) error {
	return c.call(ctx, http.MethodPost, automationsPath+"/"+segment(id)+"/starts/"+segment(startID)+"/promote", nil, nil)
}

// CancelAutomationStart cancels a start and the run of its agent.
func (c *Client) CancelAutomationStart(ctx context.Context, id, startID string) error {
	return c.call(ctx, http.MethodPost, automationsPath+"/"+segment(id)+"/starts/"+segment(startID)+"/cancel", nil, nil)
}
