package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// messagesDialect is Anthropic's Messages API.
var messagesDialect = dialect{
	path: "/v1/messages",
	auth: func(h http.Header) error {
		if h.Get("X-Api-Key") != Key {
			return errors.New("invalid x-api-key")
		}
		return nil
	},
	check: checkMessages,
	problem: func(status int, kind, words string) []byte {
		kinds := map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
			404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}
		if kind == "" {
			kind = kinds[status]
		}
		if kind == "" {
			kind = "api_error"
		}
		b, _ := json.Marshal(object{"type": "error", "error": object{"type": kind, "message": words}, "request_id": "req_011"})
		return b
	},
	stream: streamMessages,
	broken: func(kind, words string) string {
		return event("error", object{"type": "error", "error": object{"type": kind, "message": words}})
	},
}

func streamMessages(n int, r Reply) []string {
	var out []string
	add := func(name string, data object) {
		data["type"] = name
		out = append(out, event(name, data))
	}
	add("message_start", object{"message": object{
		"id": fmt.Sprintf("msg_%06d", n), "type": "message", "role": "assistant", "model": Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": r.Usage.Input, "cache_creation_input_tokens": r.Usage.CacheWrite,
			"cache_read_input_tokens": r.Usage.CacheRead, "output_tokens": 1},
	}})
	add("ping", object{})
	index := 0
	block := func(start object, deltas ...object) {
		add("content_block_start", object{"index": index, "content_block": start})
		for _, d := range deltas {
			add("content_block_delta", object{"index": index, "delta": d})
		}
		add("content_block_stop", object{"index": index})
		index++
	}
	if r.Thinking != "" {
		var deltas []object
		for _, p := range r.pieces(r.Thinking) {
			deltas = append(deltas, object{"type": "thinking_delta", "thinking": p})
		}
		deltas = append(deltas, object{"type": "signature_delta", "signature": sign(r.Thinking)})
		block(object{"type": "thinking", "thinking": "", "signature": ""}, deltas...)
	}
	if r.Redacted != "" {
		block(object{"type": "redacted_thinking", "data": sign(r.Redacted)})
	}
	if r.Text != "" {
		var deltas []object
		for _, p := range r.pieces(r.Text) {
			deltas = append(deltas, object{"type": "text_delta", "text": p})
		}
		block(object{"type": "text", "text": ""}, deltas...)
	}
	for _, c := range r.Calls {
		deltas := []object{{"type": "input_json_delta", "partial_json": ""}}
		for _, p := range r.pieces(c.Args) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": p})
		}
		block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}, deltas...)
	}
	stop := "end_turn"
	switch {
	case r.Refuse:
		stop = "refusal"
	case r.Full:
		stop = "max_tokens"
	case len(r.Calls) > 0:
		stop = "tool_use"
	}
	add("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil},
		"usage": object{"output_tokens": r.Usage.Output}})
	add("message_stop", object{})
	return out
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

type messagesRequest struct {
	Model     string          `json:"model"`
	MaxTokens *int            `json:"max_tokens"`
	System    json.RawMessage `json:"system"`
	Stream    bool            `json:"stream"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl *cacheControl   `json:"cache_control"`
	} `json:"tools"`
	Thinking *struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"`
		Display string `json:"display"`
	} `json:"thinking"`
	ToolChoice *struct {
		Type   string `json:"type"`
		Serial bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	OutputConfig *struct {
		Effort *string `json:"effort"`
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
}

type messagesBlock struct {
	Type         string          `json:"type"`
	Text         *string         `json:"text"`
	Source       *imageSource    `json:"source"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	ToolUseID    string          `json:"tool_use_id"`
	IsError      bool            `json:"is_error"`
	Content      json.RawMessage `json:"content"`
	Thinking     *string         `json:"thinking"`
	Signature    string          `json:"signature"`
	Data         string          `json:"data"`
	CacheControl *cacheControl   `json:"cache_control"`
}

type imageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

func checkMessages(r Request, issued []Reply) (string, error) {
	if r.Header.Get("Anthropic-Version") != "2023-06-01" {
		return "", errors.New("anthropic-version: header is required")
	}
	var q messagesRequest
	if err := strict(r.Body, &q); err != nil {
		return "", fmt.Errorf("%w: Extra inputs are not permitted", err)
	}
	if q.MaxTokens == nil || *q.MaxTokens < 1 {
		return "", errors.New("max_tokens: Field required")
	}
	if !q.Stream {
		return "", errors.New("this server only streams")
	}
	if t := q.Thinking; t != nil && t.Type == "enabled" && (t.Budget < 1024 || t.Budget >= *q.MaxTokens) {
		return "", errors.New("`max_tokens` must be greater than `thinking.budget_tokens`, which is 1024 at least")
	}
	if t := q.Thinking; t != nil && (t.Type != "enabled" && t.Type != "adaptive" && t.Type != "disabled" || t.Type != "enabled" && t.Budget != 0 || t.Display != "" && t.Display != "summarized" && t.Display != "omitted") {
		return "", errors.New("thinking: Input should be a valid thinking configuration")
	}
	if c := q.OutputConfig; c != nil && c.Effort != nil && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, *c.Effort) {
		return "", errors.New("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	}
	if c := q.OutputConfig; c != nil && c.Format != nil {
		if err := checkFormat(c.Format.Type, c.Format.Schema); err != nil {
			return "", fmt.Errorf("output_config.format: %w", err)
		}
	}
	if q.ToolChoice != nil && (q.ToolChoice.Type != "auto" || len(q.Tools) == 0) {
		return "", errors.New("tool_choice may only be specified while providing tools")
	}
	for beta := range strings.SplitSeq(r.Header.Get("Anthropic-Beta"), ",") {
		if beta != "" && beta != "context-1m-2025-08-07" && beta != "interleaved-thinking-2025-05-14" {
			return "", fmt.Errorf("Unexpected value(s) `%s` for the `anthropic-beta` header", beta)
		}
	}
	marks := 0
	if len(q.System) > 0 {
		blocks, err := messagesBlocks(q.System, "system", &marks)
		if err != nil {
			return "", err
		}
		for _, b := range blocks {
			if b.Type != "text" {
				return "", errors.New("system: only text")
			}
		}
	}
	seen := map[string]bool{}
	for i, t := range q.Tools {
		if err := checkTool(seen, i, t.Name, t.InputSchema); err != nil {
			return "", err
		}
		if t.CacheControl != nil {
			marks++
		}
	}
	if err := checkTurns(q, &marks); err != nil {
		return "", err
	}
	if err := checkThinking(q, issued); err != nil {
		return "", err
	}
	if marks > 4 {
		return "", fmt.Errorf("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	}
	return q.Model, nil
}

func checkTurns(q messagesRequest, marks *int) error {
	if len(q.Messages) == 0 {
		return errors.New("messages: at least one message is required")
	}
	var waiting []string
	ids := map[string]bool{}
	last := ""
	for i, m := range q.Messages {
		at := fmt.Sprintf("messages.%d", i)
		if m.Role != "user" && m.Role != "assistant" {
			return fmt.Errorf("%s.role: Input should be 'user' or 'assistant'", at)
		}
		if i == 0 && m.Role != "user" {
			return errors.New("messages: first message must use the \"user\" role")
		}
		if m.Role == last {
			return errors.New("messages: roles must alternate between \"user\" and \"assistant\"")
		}
		last = m.Role
		blocks, err := messagesBlocks(m.Content, at, marks)
		if err != nil {
			return err
		}
		var calls []string
		other := false
		for j, b := range blocks {
			if err := checkRole(m.Role, b.Type, other); err != nil {
				return fmt.Errorf("%s.content.%d: %w", at, j, err)
			}
			switch b.Type {
			case "tool_use":
				if ids[b.ID] {
					return fmt.Errorf("%s: `tool_use` ids must be unique", at)
				}
				ids[b.ID] = true
				calls = append(calls, b.ID)
			case "tool_result":
				k := slices.Index(waiting, b.ToolUseID)
				if k < 0 {
					return fmt.Errorf("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at, b.ToolUseID)
				}
				waiting = slices.Delete(waiting, k, k+1)
			default:
				other = true
			}
		}
		if len(waiting) > 0 {
			return fmt.Errorf("%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s", at, strings.Join(waiting, ", "))
		}
		waiting = calls
		if end := blocks[len(blocks)-1]; i == len(q.Messages)-1 && m.Role == "assistant" {
			if end.Type == "text" && strings.TrimRight(*end.Text, " \t\r\n") != *end.Text {
				return errors.New("messages: final assistant content cannot end with trailing whitespace")
			}
			if end.Type == "thinking" {
				return errors.New("messages: the final block in an assistant message cannot be `thinking`")
			}
		}
	}
	if len(waiting) > 0 {
		return fmt.Errorf("messages: `tool_use` ids were found without `tool_result` blocks immediately after: %s", strings.Join(waiting, ", "))
	}
	return nil
}

// checkThinking rejects missing or modified reasoning in the current turn: the
// replies since the last message that a person has written.
func checkThinking(q messagesRequest, issued []Reply) error {
	none := 0
	turn := len(q.Messages) // index of the first reply of the current turn
	for i := len(q.Messages) - 1; i >= 1; i -= 2 {
		blocks, err := messagesBlocks(q.Messages[i].Content, "", &none)
		if err != nil || q.Messages[i].Role != "user" || blocks[0].Type != "tool_result" {
			break
		}
		turn = i - 1
	}
	const rule = "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
	on := q.Thinking != nil && q.Thinking.Type != "disabled"
	for i := turn; i < len(q.Messages); i += 2 {
		blocks, err := messagesBlocks(q.Messages[i].Content, "", &none)
		if err != nil {
			return err
		}
		thought := func(b messagesBlock) bool { return b.Type == "thinking" || b.Type == "redacted_thinking" }
		if !on {
			if slices.ContainsFunc(blocks, thought) {
				return fmt.Errorf("messages.%d.content.0: When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`.", i)
			}
			continue
		}
		if i == turn && q.Thinking.Type == "enabled" && !thought(blocks[0]) {
			return fmt.Errorf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. %s", i, blocks[0].Type, rule)
		}
		var calls []Call
		var thinking, redacted string
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				calls = append(calls, Call{Name: b.Name, Args: string(b.Input)})
			case "thinking":
				thinking += *b.Thinking
			case "redacted_thinking":
				redacted += b.Data
			}
		}
		was, reasoned := thoughtOf(issued, calls)
		switch {
		case !reasoned && thinking != "" && !slices.ContainsFunc(issued, func(r Reply) bool { return r.Thinking == thinking }):
			return fmt.Errorf("messages.%d.content.0: Invalid `signature` in `thinking` block", i) // signed by another model
		case !reasoned:
		case !thought(blocks[0]):
			return fmt.Errorf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. %s", i, blocks[0].Type, rule)
		case thinking != was.Thinking || was.Redacted != "" && redacted != sign(was.Redacted):
			return fmt.Errorf("messages.%d.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.", i)
		}
	}
	return nil
}

// checkRole rejects blocks that the role may not contain, and results after
// other content.
func checkRole(role, kind string, other bool) error {
	switch kind {
	case "tool_use", "thinking", "redacted_thinking":
		if role != "assistant" {
			return fmt.Errorf("`%s` blocks can only be in `assistant` messages", kind)
		}
	case "tool_result", "image":
		if role != "user" {
			return fmt.Errorf("`%s` blocks can only be in `user` messages", kind)
		}
		if kind == "tool_result" && other {
			return errors.New("`tool_result` blocks must come first in the content")
		}
	}
	return nil
}

func messagesBlocks(raw json.RawMessage, at string, marks *int) ([]messagesBlock, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf("%s: text must be non-empty", at)
		}
		return []messagesBlock{{Type: "text", Text: &text}}, nil
	}
	var blocks []messagesBlock
	if err := strict(raw, &blocks); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("%s: content must be non-empty", at)
	}
	for j, b := range blocks {
		if err := checkMessagesBlock(b, marks); err != nil {
			return nil, fmt.Errorf("%s.content.%d: %w", at, j, err)
		}
	}
	return blocks, nil
}

func checkMessagesBlock(b messagesBlock, marks *int) error {
	if b.CacheControl != nil {
		*marks++
		if b.CacheControl.Type != "ephemeral" {
			return errors.New("cache_control.type: Input should be 'ephemeral'")
		}
		if strings.HasSuffix(b.Type, "thinking") {
			return errors.New("cache_control: thinking blocks cannot have it")
		}
	}
	switch b.Type {
	case "text":
		if b.Text == nil || *b.Text == "" {
			return errors.New("text content blocks must be non-empty")
		}
		if strings.TrimSpace(*b.Text) == "" {
			return errors.New("text content blocks must contain non-whitespace text")
		}
	case "image":
		if b.Source == nil || b.Source.Type != "base64" {
			return errors.New("image.source: Field required")
		}
		return checkImage(b.Source.MediaType, b.Source.Data)
	case "thinking":
		if b.Thinking == nil || b.Signature == "" {
			return errors.New("thinking.signature: Field required")
		}
		if b.Signature != sign(*b.Thinking) {
			return errors.New("Invalid `signature` in `thinking` block")
		}
	case "redacted_thinking":
		if b.Data == "" {
			return errors.New("redacted_thinking.data: Field required")
		}
	case "tool_use":
		if !toolName.MatchString(b.ID) || !toolName.MatchString(b.Name) {
			return errors.New("tool_use.id, tool_use.name: String should match pattern '^[a-zA-Z0-9_-]+$'")
		}
		if checkArguments(string(b.Input)) != nil {
			return errors.New("tool_use.input: Input should be a valid dictionary")
		}
	case "tool_result":
		return checkResultContent(b)
	default:
		return fmt.Errorf("type: Input tag '%s' found is none of the expected tags", b.Type)
	}
	return nil
}

func checkResultContent(b messagesBlock) error {
	if len(b.Content) == 0 {
		if b.IsError {
			return errors.New("tool_result: content cannot be empty if `is_error` is true")
		}
		return nil
	}
	none := 0
	parts, err := messagesBlocks(b.Content, "tool_result", &none)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type != "text" && p.Type != "image" {
			return fmt.Errorf("tool_result: a `%s` block cannot be in it", p.Type)
		}
	}
	return nil
}
