package stream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"aloft/internal/agent"
	"aloft/internal/control/api/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/tool"
)

// maxShown is how many bytes of a call's arguments or result a stream shows. If
// they are longer, each string in them is cut to maxShownString.
const (
	maxShown       = 256 << 10
	maxShownString = 16 << 10
)

// update is the data of an interaction_update. Its fields depend on its type.
type update map[string]any

type textJSON struct {
	Text string `json:"text"`
}

type resultJSON struct {
	RunID      string               `json:"runId"`
	Status     string               `json:"status"`
	Text       string               `json:"text,omitempty"`
	DurationMS int64                `json:"durationMs"`
	Git        *agents.RunGitJSON   `json:"git,omitempty"`
	Outcome    string               `json:"outcome,omitempty"`
	Evidence   *agents.EvidenceJSON `json:"evidence,omitempty"`
}

type toolCallJSON struct {
	CallID    string          `json:"callId"`
	Name      string          `json:"name"`
	Status    string          `json:"status"`
	Args      any             `json:"args,omitempty"`
	Result    any             `json:"result,omitempty"`
	Truncated *truncationJSON `json:"truncated,omitempty"`
}

type truncationJSON struct {
	Args   bool `json:"args,omitempty"`
	Result bool `json:"result,omitempty"`
}

// frame returns the frame for a call: the plain event, and as its twin the same
// content as an interaction update.
func (c *call) frame(status string, result any, cutResult bool) frame {
	var cut *truncationJSON
	if c.cutArgs || cutResult {
		cut = &truncationJSON{Args: c.cutArgs, Result: cutResult}
	}
	id := cmp.Or(c.id, "unknown") // a model may leave the id out, but clients require one
	rich := map[string]any{"type": c.name}
	if c.args != nil {
		rich["args"] = c.args
	}
	if cut != nil {
		rich["truncated"] = cut
	}
	kind := "tool-call-started"
	if status == "completed" {
		kind = "tool-call-completed"
		rich["result"] = richResult(result)
	}
	return frame{
		event: "tool_call",
		data:  toolCallJSON{CallID: id, Name: c.name, Status: status, Args: c.args, Result: result, Truncated: cut},
		twin:  update{"type": kind, "callId": id, "modelCallId": id, "toolCall": rich},
	}
}

// richResult adds to {"success": …} or {"error": …} the fields that clients
// of interaction updates read: a status, and the value of a success.
func richResult(result any) any {
	m, ok := result.(map[string]any)
	if !ok {
		return result
	}
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	if v, ok := m["success"]; ok {
		out["status"], out["value"] = "success", v
	} else if _, ok := m["error"]; ok {
		out["status"] = "error"
	}
	return out
}

func userMessageUpdate(agentID, text string) update {
	return update{"type": "user-message-appended", "userMessage": map[string]string{
		"type": "user_message", "session_id": agentID, "text": text,
	}}
}

// outputUpdate returns an update for a piece of a running call's output.
func outputUpdate(c *call, stream, text string) update {
	if c.name != "shell" {
		return update{"type": "tool-call-delta", "callId": c.id, "modelCallId": c.id, "taskUpdate": update{"type": "text-delta", "text": text}}
	}
	return update{"type": "shell-output-delta", "callId": c.id, "event": map[string]any{
		"case": stream, "value": map[string]string{"data": text},
	}}
}

// interrupted is the result of a call that was cut off by the end of its run.
var interrupted = tool.ErrorOutput("the run ended before this call did")

// resultOf returns a call's result as JSON.
func resultOf(b *agent.CallDone) json.RawMessage {
	switch {
	case len(b.Output) > 0 && json.Valid(b.Output):
		return b.Output
	case b.Error:
		return tool.ErrorOutput(b.Text)
	}
	out, _ := json.Marshal(map[string]any{"success": map[string]string{"text": b.Text}}) // marshaling a string cannot fail
	return out
}

// publicName returns a tool's name in the public stream. A name that is not in
// the catalogue was invented by the model and is shown unchanged.
func publicName(name string) string {
	if spec, ok := tool.Lookup(name); ok && spec.PublicName != "" {
		return spec.PublicName
	}
	first, size := utf8.DecodeRuneInString(name)
	if size == 0 {
		return "unknown"
	}
	return string(unicode.ToLower(first)) + name[size:]
}

// bounded decodes JSON and shortens it to the limits. Text that is not JSON
// becomes a string. cut reports whether anything was shortened.
func bounded(raw json.RawMessage) (v any, cut bool) {
	if len(raw) == 0 {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil || dec.More() {
		v = strings.ToValidUTF8(string(raw), "�")
	}
	if len(raw) <= maxShown {
		return v, false
	}
	v = shorten(v)
	if short, err := rest.Marshal(v); err != nil || len(short) > maxShown {
		return nil, true
	}
	return v, true
}

func shorten(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) > maxShownString {
			return strings.ToValidUTF8(v[:maxShownString], "") + "…"
		}
	case []any:
		for i := range v {
			v[i] = shorten(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = shorten(v[k])
		}
	}
	return v
}
