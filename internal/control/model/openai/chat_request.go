package openai

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// chatBody is the body of a request.
type chatBody struct {
	Model               string            `json:"model"`
	Messages            []json.RawMessage `json:"messages"`
	Tools               []json.RawMessage `json:"tools,omitempty"`
	MaxTokens           int               `json:"max_tokens,omitempty"`
	MaxCompletionTokens int               `json:"max_completion_tokens,omitempty"`
	ReasoningEffort     string            `json:"reasoning_effort,omitempty"`
	Parallel            *bool             `json:"parallel_tool_calls,omitempty"`
	Format              *chatFormat       `json:"response_format,omitempty"`
	Stream              bool              `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatFormat struct {
	Type   string     `json:"type"`
	Schema chatSchema `json:"json_schema"`
}

type chatSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

// chatMessage is a message. Content is a string or a list of parts.
type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatPart struct {
	Type     string   `json:"type"`
	Text     string   `json:"text,omitempty"`
	ImageURL *chatURL `json:"image_url,omitempty"`
}

type chatURL struct {
	URL string `json:"url"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// chatRequest returns the body of a request; the Splice holds the parts that
// are already encoded.
func chatRequest(cfg Config, req model.Request) (chatBody, model.Splice, error) {
	b := chatBody{Model: cfg.Name, ReasoningEffort: cfg.Effort, Parallel: cfg.serial(req), Stream: true}
	if cfg.Schema && req.Schema != nil {
		b.Format = &chatFormat{"json_schema", chatSchema{schemaName, req.Schema, true}}
	}
	b.StreamOptions.IncludeUsage = true
	// Only OpenAI's own API supports the newer field name, and its newer models
	// accept only that name.
	if strings.HasPrefix(cfg.BaseURL, defaultBaseURL) {
		b.MaxCompletionTokens = max(req.MaxTokens, 0)
	} else {
		b.MaxTokens = max(req.MaxTokens, 0)
	}
	if strings.TrimSpace(req.System) != "" {
		system, err := model.JSON(chatMessage{Role: "system", Content: req.System})
		if err != nil {
			return b, nil, err
		}
		b.Messages = append(b.Messages, system)
	}
	b.Messages = append(b.Messages, model.MessagesMark.JSON())
	if len(req.Tools) > 0 {
		b.Tools = []json.RawMessage{model.ToolsMark.JSON()}
	}
	encoded, err := req.Cache.Encode(req, nil, func(i int) ([]byte, error) {
		if m := req.Messages[i]; m.Role == conversation.User {
			return model.Elements(chatUser(m))
		}
		return model.JSON(chatAssistant(req.Messages[i]))
	}, func() ([]byte, error) { return model.Elements(chatTools(req.Tools)) })
	return b, encoded, err
}

func chatTools(specs []tool.Spec) []chatTool {
	out := make([]chatTool, len(specs))
	for i, t := range specs {
		out[i].Type = "function"
		out[i].Function.Name, out[i].Function.Description, out[i].Function.Parameters = t.Name, t.Description, t.Schema
	}
	return out
}

func chatAssistant(m conversation.Message) chatMessage {
	out := chatMessage{Role: "assistant"}
	if text := m.PlainText(); text != "" {
		out.Content = text
	}
	for _, c := range m.Calls() {
		out.ToolCalls = append(out.ToolCalls, chatCall{c.ID, "function", chatFunction{c.Name, string(c.Args)}})
	}
	return out
}

// chatUser converts a user message: a tool message for each result, followed by
// one message with everything else. A tool message can contain only text, so
// images of results go into the last message too.
func chatUser(m conversation.Message) (out []chatMessage) {
	var parts []chatPart
	text := func(s string) { parts = append(parts, chatPart{Type: "text", Text: s}) }
	image := func(i conversation.Image) {
		parts = append(parts, chatPart{Type: "image_url", ImageURL: &chatURL{dataURL(i)}})
	}
	for _, b := range m.Blocks {
		switch {
		case b.Result != nil:
			out = append(out, chatMessage{Role: "tool", Content: resultText(*b.Result), ToolCallID: b.Result.CallID})
			if len(b.Result.Images) > 0 {
				text("Images of the result of call " + b.Result.CallID + ":")
			}
			for _, img := range b.Result.Images {
				image(img)
			}
		case b.Image != nil:
			image(*b.Image)
		default:
			text(b.Text)
		}
	}
	switch {
	case len(parts) == 1 && parts[0].ImageURL == nil:
		out = append(out, chatMessage{Role: "user", Content: parts[0].Text}) // a plain string, since some servers do not support parts
	case len(parts) > 0:
		out = append(out, chatMessage{Role: "user", Content: parts})
	}
	return out
}

func dataURL(img conversation.Image) string {
	return "data:" + img.MediaType + ";base64," + base64.StdEncoding.EncodeToString(img.Data)
}

// resultText returns a result as text. These APIs have no flag for a failed
// call.
func resultText(r conversation.ToolResult) string {
	switch {
	case r.Error && !strings.HasPrefix(strings.ToLower(r.Text), "error"):
		return "error: " + r.Text
	case r.Text == "" && len(r.Images) > 0:
		return "(see the images)"
	}
	return r.Text
}
