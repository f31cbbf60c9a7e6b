package hook

import (
	"encoding/json"
	"maps"

	"aloft/internal/hook"
)

// claudeEvents maps the events of .claude/settings.json to ours.
var claudeEvents = map[string]hook.Event{
	"PreToolUse": hook.PreToolUse, "PostToolUse": hook.PostToolUse, "PostToolUseFailure": hook.PostToolUseFailure, "UserPromptSubmit": hook.BeforeSubmitPrompt,
	"Stop": hook.Stop, "SubagentStop": hook.SubagentStop, "SubagentStart": hook.SubagentStart, "PreCompact": hook.PreCompact,
	"SessionStart": hook.SessionStart, "SessionEnd": hook.SessionEnd,
}

// claudeTools maps our tools to the names that hooks in Claude's format use.
var claudeTools = map[string]string{
	"Shell": "Bash", "StrReplace": "Edit", "EditNotebook": "NotebookEdit", "Fetch": "WebFetch",
}

// addClaude adds the hooks of a .claude/settings.json.
func (s *Set) addClaude(file string, data []byte) {
	var top struct {
		Hooks map[string]json.RawMessage `json:"hooks"`
	}
	if !s.decode(file, data, &top) {
		return
	}
	for name, raw := range top.Hooks {
		event, ok := claudeEvents[name]
		if !ok {
			s.warn("%s: the event %q is not supported, so its hooks are not run", file, name)
			continue
		}
		var groups []struct {
			Matcher string  `json:"matcher"`
			Hooks   []entry `json:"hooks"`
		}
		if err := json.Unmarshal(raw, &groups); err != nil {
			s.warn("%s: %s: %v", file, name, err)
			continue
		}
		for _, g := range groups {
			for _, e := range g.Hooks {
				e.Matcher = g.Matcher
				s.append(file, event, e, true)
			}
		}
	}
}

// claudeInput converts a hook's input to Claude's format.
func claudeInput(in map[string]any, e hook.Event) map[string]any {
	out := maps.Clone(in)
	for name, event := range claudeEvents {
		if event == e {
			out["hook_event_name"] = name
		}
	}
	out["session_id"] = in["conversation_id"]
	if tool, ok := in["tool_name"].(string); ok {
		if name, ok := claudeTools[tool]; ok {
			out["tool_name"] = name
		}
	}
	return out
}

// claudeAnswer is a hook's output in Claude's format.
type claudeAnswer struct {
	Continue   *bool  `json:"continue"`
	StopReason string `json:"stopReason"`
	Decision   string `json:"decision"` // "block" or "approve"
	Reason     string `json:"reason"`
	Specific   struct {
		Decision string          `json:"permissionDecision"`
		Reason   string          `json:"permissionDecisionReason"`
		Context  string          `json:"additionalContext"`
		Updated  json.RawMessage `json:"updatedInput"`
	} `json:"hookSpecificOutput"`
}

// plain converts the answer to the format of hooks.json.
func (a claudeAnswer) plain(e hook.Event) answer {
	out := answer{
		Continue: a.Continue, UserMessage: a.StopReason, AgentMessage: a.Specific.Reason,
		Permission: a.Specific.Decision, AdditionalContext: a.Specific.Context, UpdatedInput: a.Specific.Updated,
	}
	if a.Decision != "block" {
		return out
	}
	switch e {
	case hook.Stop, hook.SubagentStop: // for these events "block" means to continue, for the given reason
		out.FollowupMessage = a.Reason
	case hook.BeforeSubmitPrompt:
		no := false
		out.Continue, out.UserMessage = &no, a.Reason
	case hook.PostToolUse:
		out.AdditionalContext = a.Reason
	default:
		out.Permission, out.AgentMessage = string(hook.Deny), a.Reason
	}
	return out
}
