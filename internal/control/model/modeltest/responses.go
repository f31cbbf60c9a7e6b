package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// responsesDialect is OpenAI's Responses.
var responsesDialect = dialect{
	version: "/v1",
	path:    "/responses",
	auth:    func(h http.Header) error { return bearer(h.Get("Authorization")) },
	check:   checkResponses,
	problem: openaiProblem,
	stream:  streamResponses,
	broken: func(kind, words string) string {
		return event("error", object{"type": "error", "code": kind, "message": words, "param": nil, "sequence_number": 3})
	},
}

func streamResponses(n int, r Reply) []string {
	w := &responsesWriter{id: fmt.Sprintf("resp_%06d", n)}
	w.add("response.created", object{"response": w.response("in_progress", nil)})
	w.add("response.in_progress", object{"response": w.response("in_progress", nil)})
	if r.Thinking != "" {
		id := fmt.Sprintf("rs_%06d", n)
		summary := []object{{"type": "summary_text", "text": r.Thinking}}
		w.item(object{"id": id, "type": "reasoning", "summary": []any{}},
			object{"id": id, "type": "reasoning", "summary": summary, "encrypted_content": sign(id + r.Thinking)},
			func() {
				w.add("response.reasoning_summary_part.added", object{"item_id": id, "output_index": w.index, "summary_index": 0,
					"part": object{"type": "summary_text", "text": ""}})
				for _, p := range r.pieces(r.Thinking) {
					w.add("response.reasoning_summary_text.delta", object{"item_id": id, "output_index": w.index, "summary_index": 0, "delta": p})
				}
				w.add("response.reasoning_summary_text.done", object{"item_id": id, "output_index": w.index, "summary_index": 0, "text": r.Thinking})
			})
	}
	if r.Text != "" {
		w.message(n, r)
	}
	for i, c := range r.Calls {
		id := fmt.Sprintf("fc_%06d_%d", n, i)
		item := func(status, args string) object {
			return object{"id": id, "type": "function_call", "status": status, "call_id": c.ID, "name": c.Name, "arguments": args}
		}
		w.item(item("in_progress", ""), item("completed", c.Args), func() {
			for _, p := range r.pieces(c.Args) {
				w.add("response.function_call_arguments.delta", object{"item_id": id, "output_index": w.index, "delta": p})
			}
			w.add("response.function_call_arguments.done", object{"item_id": id, "output_index": w.index, "arguments": c.Args})
		})
	}
	u := r.Usage
	usage := object{"input_tokens": u.Input + u.CacheRead, "input_tokens_details": object{"cached_tokens": u.CacheRead},
		"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": u.Input + u.CacheRead + u.Output}
	if r.Full {
		res := w.response("incomplete", usage)
		res["incomplete_details"] = object{"reason": "max_output_tokens"}
		w.add("response.incomplete", object{"response": res})
	} else {
		w.add("response.completed", object{"response": w.response("completed", usage)})
	}
	return w.out
}

type responsesWriter struct {
	id    string
	index int
	items []object
	out   []string
}

func (w *responsesWriter) add(name string, data object) {
	data["type"], data["sequence_number"] = name, len(w.out)
	w.out = append(w.out, event(name, data))
}

func (w *responsesWriter) response(status string, usage any) object {
	return object{"id": w.id, "object": "response", "created_at": 1700000000, "status": status, "error": nil,
		"incomplete_details": nil, "model": Model, "output": append([]object{}, w.items...), "usage": usage, "store": false}
}

func (w *responsesWriter) item(begun, done object, between func()) {
	w.add("response.output_item.added", object{"output_index": w.index, "item": begun})
	between()
	w.add("response.output_item.done", object{"output_index": w.index, "item": done})
	w.items = append(w.items, done)
	w.index++
}

func (w *responsesWriter) message(n int, r Reply) {
	id := fmt.Sprintf("msg_%06d", n)
	kind, field := "output_text", "text"
	if r.Refuse {
		kind, field = "refusal", "refusal"
	}
	part := func(text string) object { return object{"type": kind, field: text, "annotations": []any{}} }
	msg := func(status string, content ...object) object {
		return object{"id": id, "type": "message", "role": "assistant", "status": status, "content": append([]object{}, content...)}
	}
	w.item(msg("in_progress"), msg("completed", part(r.Text)), func() {
		at := func(more object) object {
			more["item_id"], more["output_index"], more["content_index"] = id, w.index, 0
			return more
		}
		w.add("response.content_part.added", at(object{"part": part("")}))
		for _, p := range r.pieces(r.Text) {
			w.add("response."+kind+".delta", at(object{"delta": p}))
		}
		w.add("response."+kind+".done", at(object{field: r.Text}))
		w.add("response.content_part.done", at(object{"part": part(r.Text)}))
	})
}

type responsesRequest struct {
	Model           string            `json:"model"`
	Input           []json.RawMessage `json:"input"`
	Instructions    string            `json:"instructions"`
	Stream          bool              `json:"stream"`
	Store           *bool             `json:"store"`
	Include         []string          `json:"include"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	Parallel        *bool             `json:"parallel_tool_calls"`
	Text            *struct {
		Format struct {
			Type   string          `json:"type"`
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		} `json:"format"`
	} `json:"text"`
	Reasoning *struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	Tools []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"tools"`
}

type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	ID        string          `json:"id"`
	Encrypted string          `json:"encrypted_content"`
	Summary   []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"summary"`
}

func checkResponses(r Request, issued []Reply) (string, error) {
	var q responsesRequest
	if err := strict(r.Body, &q); err != nil {
		return "", fmt.Errorf("Unknown parameter: %w", err)
	}
	if !q.Stream {
		return "", errors.New("this server only streams")
	}
	if q.MaxOutputTokens != nil && *q.MaxOutputTokens < 16 {
		return "", errors.New("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16")
	}
	if q.Parallel != nil && len(q.Tools) == 0 {
		return "", errors.New("Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.")
	}
	if q.Text != nil {
		if err := checkFormat(q.Text.Format.Type, q.Text.Format.Schema); err != nil || q.Text.Format.Name == "" {
			return "", fmt.Errorf("Invalid schema for response_format: %w", err)
		}
	}
	seen := map[string]bool{}
	for i, t := range q.Tools {
		if t.Type != "function" {
			return "", fmt.Errorf("tools[%d].type: %q", i, t.Type)
		}
		if err := checkTool(seen, i, t.Name, t.Parameters); err != nil {
			return "", err
		}
	}
	if len(q.Input) == 0 {
		return "", errors.New("Missing required parameter: 'input'.")
	}
	if e := q.Reasoning; e != nil && !slices.Contains([]string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}, e.Effort) {
		return "", fmt.Errorf("Invalid value: '%s'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', and 'max'.", e.Effort)
	}
	if err := checkReasoning(q.Input, issued); err != nil {
		return "", err
	}
	l := newLedger()
	thought := "" // reasoning whose call or message has not followed yet
	for i, raw := range q.Input {
		var it responsesItem
		if err := strict(raw, &it); err != nil {
			return "", fmt.Errorf("input[%d]: Unknown parameter: %w", i, err)
		}
		if it.Type == "" && it.Role != "" {
			it.Type = "message"
		}
		if thought != "" && it.Type != "function_call" && it.Type != "reasoning" && it.Role != "assistant" {
			return "", fmt.Errorf("Item '%s' of type 'reasoning' was provided without its required following item.", thought)
		}
		thought = ""
		if it.Type == "reasoning" {
			thought = it.ID
		}
		if i == 0 && it.Role != "user" {
			return "", errors.New("input[0]: the first item is not the user's")
		}
		if err := checkItem(it, l); err != nil {
			return "", fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	if thought != "" {
		return "", fmt.Errorf("Item '%s' of type 'reasoning' was provided without its required following item.", thought)
	}
	return q.Model, l.checkResults()
}

// checkReasoning rejects calls in the current turn whose reasoning is missing.
func checkReasoning(input []json.RawMessage, issued []Reply) error {
	var calls []Call
	thought := ""
	flush := func() error {
		was, reasoned := thoughtOf(issued, calls)
		if reasoned && thought != was.Thinking {
			return fmt.Errorf("Item of type 'function_call' (%s) was provided without its required 'reasoning' item.", calls[0].Name)
		}
		calls, thought = nil, ""
		return nil
	}
	items := make([]responsesItem, len(input))
	turn := 0
	for i, raw := range input {
		if err := json.Unmarshal(raw, &items[i]); err != nil {
			return err
		}
		if items[i].Role == "user" {
			turn = i
		}
	}
	for _, it := range items[turn:] {
		switch {
		case it.Type == "reasoning":
			for _, s := range it.Summary {
				thought += s.Text
			}
		case it.Type == "function_call":
			calls = append(calls, Call{Name: it.Name, Args: it.Arguments})
		case it.Type == "function_call_output":
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkItem(it responsesItem, l ledger) error {
	switch it.Type {
	case "message":
		if err := l.checkResults(); err != nil {
			return err
		}
		return checkResponsesContent(it.Role, it.Content)
	case "function_call":
		if !toolName.MatchString(it.Name) || len(it.CallID) > 64 {
			return fmt.Errorf("Invalid 'name' %q or 'call_id' %q", it.Name, it.CallID)
		}
		if err := checkArguments(it.Arguments); err != nil {
			return err
		}
		return l.call(it.CallID)
	case "function_call_output":
		if err := l.result(it.CallID); err != nil {
			return err
		}
		var text string
		if json.Unmarshal(it.Output, &text) == nil && string(it.Output) != "null" {
			return nil
		}
		return checkResponsesContent("user", it.Output)
	case "reasoning":
		words := it.ID
		for _, s := range it.Summary {
			words += s.Text
		}
		if it.ID == "" || it.Encrypted != sign(words) {
			return errors.New("The encrypted content could not be verified.")
		}
		return nil
	}
	return fmt.Errorf("Invalid value: '%s'. Supported values are: 'message', 'function_call', …", it.Type)
}

func checkResponsesContent(role string, raw json.RawMessage) error {
	if role != "user" && role != "assistant" && role != "developer" && role != "system" {
		return fmt.Errorf("Invalid value for 'role': '%s'", role)
	}
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
		if strings.TrimSpace(text) == "" {
			return errors.New("content is empty")
		}
		return nil
	}
	var parts []struct {
		Type     string  `json:"type"`
		Text     *string `json:"text"`
		ImageURL string  `json:"image_url"`
		Detail   string  `json:"detail"`
	}
	if err := strict(raw, &parts); err != nil {
		return fmt.Errorf("Invalid value for 'content': %w", err)
	}
	if len(parts) == 0 {
		return errors.New("content is empty")
	}
	for _, p := range parts {
		switch {
		case p.Type == "input_text" && role == "user" && p.Text != nil && strings.TrimSpace(*p.Text) != "":
		case p.Type == "output_text" && role == "assistant" && p.Text != nil:
		case p.Type == "input_image" && role == "user":
			if err := checkDataURL(p.ImageURL); err != nil {
				return err
			}
		default:
			return fmt.Errorf("Invalid value: '%s' is empty or not for the %s", p.Type, role)
		}
	}
	return nil
}
