package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/rest"
	"aloft/internal/subagent"

	"github.com/danielgtaylor/huma/v2"
)

type customSubagentJSON struct {
	_           struct{}           `json:"-" additionalProperties:"false"`
	Name        string             `json:"name" minLength:"1" maxLength:"100"`
	Description string             `json:"description" minLength:"1" maxLength:"1000" doc:"description for the agent"`
	Prompt      string             `json:"prompt" minLength:"1" maxLength:"8192" doc:"its system prompt"`
	Model       *subagentModelJSON `json:"model,omitempty"`
}

// subagentModelJSON is a model: its id, or an object with its id.
type subagentModelJSON modelchoice.ModelRefJSON

// UnmarshalJSON accepts both forms.
func (m *subagentModelJSON) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &m.ID) == nil {
		return nil
	}
	return json.Unmarshal(data, (*modelchoice.ModelRefJSON)(m))
}

// Schema implements [huma.SchemaProvider].
func (subagentModelJSON) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "an id from GET /v1/models, fast, or inherit (default: the agent's model)",
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, r.Schema(reflect.TypeFor[modelchoice.ModelRefJSON](), true, "")},
	}
}

// decodeSubagents decodes the custom subagents of a request for an agent.
func decodeSubagents(in []customSubagentJSON) (out []agents.Subagent) {
	for _, s := range in {
		out = append(out, agents.Subagent{Name: s.Name, Description: s.Description, Prompt: s.Prompt, Model: (*modelchoice.ModelRefJSON)(s.Model).Ref()})
	}
	return out
}

// addSubagents adds the agent's custom subagents, which are stored only in the
// first event of its journal.
func addSubagents(out *agentJSON, first []agent.Event) {
	if len(first) == 0 {
		return
	}
	made, ok := first[0].Body.(*agent.Created)
	if !ok {
		return
	}
	for _, d := range made.Subagents {
		one := customSubagentJSON{Name: d.Name, Description: d.Description, Prompt: d.Words}
		if d.Model != "" && d.Model != subagent.Inherit {
			id, params := modelchoice.ModelRefOf(d.Model)
			one.Model = &subagentModelJSON{ID: id, Params: params}
		}
		out.CustomSubagents = append(out.CustomSubagents, one)
	}
}

// readSubagents adds the custom subagents to an agent that was read from a
// list.
func (s *API) readSubagents(ctx context.Context, out *agentJSON) error {
	first, err := s.Journal.Read(ctx, out.ID, 0, 1)
	if err != nil {
		return fmt.Errorf("read %s: %w", out.ID, err)
	}
	addSubagents(out, first)
	return nil
}

// UnmarshalJSON rejects unknown fields: a misspelled field
// would otherwise be dropped silently.
func (c *customSubagentJSON) UnmarshalJSON(data []byte) error {
	type plain customSubagentJSON
	return rest.Strictly(data, (*plain)(c))
}
