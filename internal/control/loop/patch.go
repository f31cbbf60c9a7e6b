package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/review"
	"aloft/internal/fault"
	"aloft/internal/tool"
)

const applyDiff = "ApplyAgentDiff"

// patchesFor reads the pushed changes of another agent for a call of
// ApplyAgentDiff. If there is nothing to apply, it returns a non-nil outcome
// that says why.
func (t *thread) patchesFor(ctx context.Context, c agent.Call) ([]byte, *outcome, error) {
	began := time.Now()
	patches, err := t.patches(ctx, c)
	if cause := context.Cause(ctx); cause != nil {
		return nil, nil, cause
	}
	if err == nil && len(patches) == 0 {
		none := tool.Result{Text: "There is nothing to apply: you have everything that the agent has pushed.", Output: json.RawMessage(`{"success":{}}`)}
		return nil, &outcome{result: none, took: time.Since(began)}, nil
	}
	var data []byte
	if err == nil {
		data, err = json.Marshal(patches)
	}
	if err != nil {
		out := failed(began, "Nothing was applied: %s", fault.Of(err).Message)
		return nil, &out, nil
	}
	return data, nil, nil
}

// patches returns the changes that a call asks to apply. The error is for the
// model.
func (t *thread) patches(ctx context.Context, c agent.Call) ([]tool.Patch, error) {
	var in struct {
		AgentID string `json:"agent_id"`
	}
	d := json.NewDecoder(bytes.NewReader(c.Args))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, fault.Invalid("the arguments do not match the schema: %v", err)
	}
	s := t.rec.Snapshot()
	switch {
	case s.Subagent(in.AgentID) != nil:
		return nil, fault.Invalid("%s is a subagent, which works in your own tree: its changes are there already", in.AgentID)
	case t.Tools.Patches == nil:
		return nil, fault.Unavailable("the server has no other agents")
	}
	patches, err := t.Tools.Patches(ctx, s, in.AgentID)
	if err != nil || t.Review == nil {
		return patches, err
	}
	guards, err := t.Review.Guards(ctx, s.Agent, c.ToolCall)
	if err != nil || !guards {
		return patches, err
	}
	var protected []string
	for _, p := range patches {
		for _, name := range p.Files {
			if file := path.Join(agent.Workspace, p.Folder, name); review.Protected(file) {
				protected = append(protected, file)
			}
		}
	}
	if len(protected) > 0 {
		return nil, fault.Denied("the changes include files that need a person's approval: %s. Fetch its branch with Shell, take the other files with git checkout, and change these with Write", strings.Join(protected[:min(len(protected), 10)], ", "))
	}
	return patches, nil
}
