package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// chatDialect is OpenAI's Chat Completions.
var chatDialect = dialect{
	version: "/v1",
	path:    "/chat/completions",
	auth:    func(h http.Header) error { return bearer(h.Get("Authorization")) },
	check:   checkChat,
	problem: openaiProblem,
	stream:  streamChat,
	broken: func(kind, words string) string {
		return event("", object{"error": object{"message": words, "type": kind, "param": nil, "code": nil}})
	},
}

func openaiProblem(status int, kind, words string) []byte {
	e := object{"message": words, "type": kind, "param": nil, "code": nil}
	if kind == "" {
		e["type"] = map[int]string{401: "invalid_request_error", 429: "requests", 500: "server_error", 503: "server_error"}[status]
	}
	switch status {
	case http.StatusUnauthorized:
		e["code"] = "invalid_api_key"
	case http.StatusNotFound:
		e["code"] = "model_not_found"
	case http.StatusTooManyRequests:
		e["code"] = "rate_limit_exceeded"
	}
	b, _ := json.Marshal(object{"error": e})
	return b
}

func streamChat(n int, r Reply) []string {
	var out []string
	chunk := func(more object) {
		c := object{"id": fmt.Sprintf("chatcmpl-%06d", n), "object": "chat.completion.chunk", "created": 1700000000,
			"model": Model, "system_fingerprint": "fp_1", "usage": nil}
		for k, v := range more {
			c[k] = v
		}
		out = append(out, event("", c))
	}
	delta := func(d object, finish any) {
		chunk(object{"choices": []object{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": finish}}})
	}
	delta(object{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, p := range r.pieces(r.Thinking) {
		delta(object{"reasoning_content": p}, nil)
	}
	field := "content"
	if r.Refuse {
		field = "refusal"
	}
	for _, p := range r.pieces(r.Text) {
		delta(object{field: p}, nil)
	}
	for i, c := range r.Calls {
		delta(object{"tool_calls": []object{{"index": i, "id": c.ID, "type": "function",
			"function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, p := range r.pieces(c.Args) {
			delta(object{"tool_calls": []object{{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	finish := "stop"
	switch {
	case r.Full:
		finish = "length"
	case len(r.Calls) > 0:
		finish = "tool_calls"
	}
	delta(object{}, finish)
	u := r.Usage
	chunk(object{"choices": []any{}, "usage": object{
		"prompt_tokens": u.Input + u.CacheRead, "completion_tokens": u.Output, "total_tokens": u.Input + u.CacheRead + u.Output,
		"prompt_tokens_details": object{"cached_tokens": u.CacheRead}}})
	return append(out, "data: [DONE]\n\n")
}

type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           *int   `json:"max_tokens"`
	MaxCompletionTokens *int   `json:"max_completion_tokens"`
	ReasoningEffort     string `json:"reasoning_effort"`
	Parallel            *bool  `json:"parallel_tool_calls"`
	Format              *struct {
		Type   string `json:"type"`
		Schema struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func checkChat(r Request, _ []Reply) (string, error) {
	var q chatRequest
	if err := strict(r.Body, &q); err != nil {
		return "", fmt.Errorf("Unrecognized request argument supplied: %w", err)
	}
	if !q.Stream {
		return "", errors.New("this server only streams")
	}
	if q.MaxTokens != nil && q.MaxCompletionTokens != nil {
		return "", errors.New("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	if q.Parallel != nil && len(q.Tools) == 0 {
		return "", errors.New("Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.")
	}
	if q.Format != nil {
		if err := checkFormat(q.Format.Type, q.Format.Schema.Schema); err != nil || q.Format.Schema.Name == "" {
			return "", fmt.Errorf("Invalid schema for response_format: %w", err)
		}
	}
	seen := map[string]bool{}
	for i, t := range q.Tools {
		if t.Type != "function" {
			return "", fmt.Errorf("tools[%d].type: %q", i, t.Type)
		}
		if err := checkTool(seen, i, t.Function.Name, t.Function.Parameters); err != nil {
			return "", err
		}
	}
	if len(q.Messages) == 0 {
		return "", errors.New("'messages' is too short - minimum length is 1")
	}
	l, begun := newLedger(), false
	for i, m := range q.Messages {
		if err := checkChatMessage(m, l, begun); err != nil {
			return "", fmt.Errorf("messages[%d]: %w", i, err)
		}
		begun = begun || m.Role != "system" && m.Role != "developer"
	}
	return q.Model, l.unanswered()
}

func (l ledger) unanswered() error {
	if l.checkResults() == nil {
		return nil
	}
	return errors.New("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.")
}

func checkChatMessage(m chatMessage, l ledger, begun bool) error {
	if m.Role != "tool" {
		if err := l.unanswered(); err != nil {
			return err
		}
	}
	if m.Role != "assistant" && len(m.ToolCalls) > 0 || m.Role != "tool" && m.ToolCallID != "" {
		return fmt.Errorf("role %q has a field of another role", m.Role)
	}
	switch m.Role {
	case "system", "developer":
		return checkChatContent(m.Content, false)
	case "user":
		return checkChatContent(m.Content, true)
	case "assistant":
		if !begun {
			return errors.New("the conversation begins with the assistant")
		}
		for _, c := range m.ToolCalls {
			if c.Type != "function" || !toolName.MatchString(c.Function.Name) || len(c.ID) > 40 {
				return fmt.Errorf("tool_calls: bad type %q, name %q or id %q", c.Type, c.Function.Name, c.ID)
			}
			if err := checkArguments(c.Function.Arguments); err != nil {
				return err
			}
			if err := l.call(c.ID); err != nil {
				return err
			}
		}
		if len(m.Content) == 0 || string(m.Content) == "null" {
			if len(m.ToolCalls) == 0 {
				return errors.New("Invalid value for 'content': expected a string, got null.")
			}
			return nil
		}
		return checkChatContent(m.Content, false)
	case "tool":
		if l.result(m.ToolCallID) != nil {
			return errors.New("messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
		}
		var text string
		if json.Unmarshal(m.Content, &text) != nil {
			return errors.New("Invalid 'content' of a tool message: only text")
		}
		return nil
	}
	return fmt.Errorf("'%s' is not one of ['system', 'assistant', 'user', 'tool', 'developer']", m.Role)
}

func checkChatContent(raw json.RawMessage, images bool) error {
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
		if strings.TrimSpace(text) == "" {
			return errors.New("content is empty")
		}
		return nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL *struct {
			URL    string `json:"url"`
			Detail string `json:"detail"`
		} `json:"image_url"`
	}
	if err := strict(raw, &parts); err != nil || len(parts) == 0 {
		return fmt.Errorf("Invalid value for 'content': %w", errors.Join(err, errors.New("no parts")))
	}
	for _, p := range parts {
		switch {
		case p.Type == "text" && strings.TrimSpace(p.Text) != "":
		case p.Type == "image_url" && images && p.ImageURL != nil:
			if err := checkDataURL(p.ImageURL.URL); err != nil {
				return err
			}
		default:
			return fmt.Errorf("a part of type %q is empty or out of place", p.Type)
		}
	}
	return nil
}
