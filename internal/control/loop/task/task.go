// Package task has the messages between an agent and its subagents: the arguments
// of a Task call, its results, and which tools a subagent has.
package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/compact"
	"aloft/internal/tool"
)

// Limits of the messages between an agent and a subagent, in bytes.
const (
	maxPrompt = 128 << 10
	maxAnswer = 64 << 10
)

// Args are the arguments of the Task tool.
type Args struct {
	Description string   `json:"description"`
	Prompt      string   `json:"prompt"`
	Type        string   `json:"subagent_type"`
	Model       string   `json:"model"`
	Resume      string   `json:"resume"`
	ReadOnly    bool     `json:"readonly"`
	Attachments []string `json:"attachments"`
	Background  bool     `json:"is_background"`
}

// Read parses the arguments; the error is for the model.
func Read(raw json.RawMessage) (Args, error) {
	var in Args
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	switch err := d.Decode(&in); {
	case err != nil:
		return in, fmt.Errorf("the arguments do not match the schema: %w", err)
	case strings.TrimSpace(in.Prompt) == "":
		return in, errors.New("prompt is missing: write everything that the subagent needs to know")
	case len(in.Prompt) > maxPrompt:
		return in, fmt.Errorf("prompt has %d bytes, more than %d: put long content into a file and name the file", len(in.Prompt), maxPrompt)
	}
	if strings.TrimSpace(in.Description) == "" {
		in.Description = agent.NameFrom(in.Prompt)
	}
	for i, path := range in.Attachments {
		if i == 0 {
			in.Prompt += "\n\nFiles to look at:"
		}
		in.Prompt += "\n- " + path
	}
	return in, nil
}

// StopFields returns the fields of the subagentStop event.
func StopFields(sub *agent.Subagent, status string) map[string]any {
	return map[string]any{
		"subagent_type": sub.Type, "status": status, "summary": compact.Cut(sub.LastWords(), maxAnswer),
		"duration_ms": time.Since(sub.Began).Milliseconds(), "modified_files": append([]string{}, sub.Changed...),
	}
}

// Answer returns the result of a call whose subagent has ended.
func Answer(sub *agent.Subagent, ended *agent.TaskEnded) tool.Result {
	answer := compact.Cut(sub.LastWords(), maxAnswer)
	output, err := json.Marshal(map[string]any{"success": map[string]any{
		"agent_id": sub.ID, "answer": answer, "duration_ms": ended.DurationMS, "tool_calls": ended.ToolCalls,
	}})
	if err != nil {
		return tool.Failed("the answer of the subagent: %v", err)
	}
	return tool.Result{Output: output, Text: answer + "\n\n[agent_id: " + sub.ID + "]"}
}

// Begun returns the result of a call whose subagent works in the background.
func Begun(sub *agent.Subagent) tool.Result {
	output, err := json.Marshal(map[string]any{"success": map[string]any{"agent_id": sub.ID, "background": true}})
	if err != nil {
		return tool.Failed("the subagent works in the background: %v", err)
	}
	return tool.Result{Output: output, Text: "The subagent works in the background. You get its answer when it has ended; " +
		"if nothing else is left to do, end your turn, and you are asked again then.\n\n[agent_id: " + sub.ID + "]"}
}
