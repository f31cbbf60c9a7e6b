package openai

import (
	"encoding/json"
	"strings"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// responseBody is the body of a request.
type responseBody struct {
	Model           string             `json:"model"`
	Instructions    string             `json:"instructions,omitempty"`
	Input           []json.RawMessage  `json:"input"`
	Tools           []json.RawMessage  `json:"tools,omitempty"`
	MaxOutputTokens int                `json:"max_output_tokens,omitempty"`
	Reasoning       *responseReasoning `json:"reasoning,omitempty"`
	Include         []string           `json:"include,omitempty"`
	Store           bool               `json:"store"`
	Parallel        *bool              `json:"parallel_tool_calls,omitempty"`
	Text            *responseText      `json:"text,omitempty"`
	Stream          bool               `json:"stream"`
}

type responseText struct {
	Format responseFormat `json:"format"`
}

type responseFormat struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

type responseReasoning struct {
	Effort  string `json:"effort"`
	Summary string `json:"summary"`
}

type responseTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

// responseItem is an item of a conversation: a message (without a type), a
// call, the output of a call, or reasoning. Content and Output are a string or
// a list of parts.
type responseItem struct {
	Type             string          `json:"type,omitempty"`
	ID               string          `json:"id,omitempty"`
	Role             string          `json:"role,omitempty"`
	Content          any             `json:"content,omitempty"`
	CallID           string          `json:"call_id,omitempty"`
	Name             string          `json:"name,omitempty"`
	Arguments        string          `json:"arguments,omitempty"`
	Output           any             `json:"output,omitempty"`
	Summary          *[]responsePart `json:"summary,omitempty"` // summary of reasoning; may be empty
	EncryptedContent string          `json:"encrypted_content,omitempty"`
}

type responsePart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Detail   string `json:"detail,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

// responseRequest returns the body of a request, and a Splice with the parts that
// are already encoded. The provider stores nothing, so the request asks for encrypted
// reasoning; later requests send it back, so that the model can continue it.
func responseRequest(cfg Config, req model.Request) (responseBody, model.Splice, error) {
	b := responseBody{Model: cfg.Name, Stream: true, Parallel: cfg.serial(req), Input: []json.RawMessage{model.MessagesMark.JSON()}}
	if t := model.Lookup(cfg.Name).Traits; t.Provider != provider || len(t.Effort) > 0 { // models that do not reason reject this field
		b.Include = []string{"reasoning.encrypted_content"}
	}
	if cfg.Schema && req.Schema != nil {
		b.Text = &responseText{responseFormat{"json_schema", schemaName, req.Schema, true}}
	}
	if cfg.Effort != "" {
		b.Reasoning = &responseReasoning{cfg.Effort, "auto"}
	}
	if req.MaxTokens > 0 {
		b.MaxOutputTokens = max(req.MaxTokens, 16) // the API's minimum
	}
	if strings.TrimSpace(req.System) != "" {
		b.Instructions = req.System
	}
	if len(req.Tools) > 0 {
		b.Tools = []json.RawMessage{model.ToolsMark.JSON()}
	}
	encoded, err := req.Cache.Encode(req, nil,
		func(i int) ([]byte, error) { return model.Elements(items(req.Messages[i])) },
		func() ([]byte, error) { return model.Elements(responseTools(req.Tools)) })
	return b, encoded, err
}

func responseTools(specs []tool.Spec) []responseTool {
	out := make([]responseTool, len(specs))
	for i, t := range specs {
		out[i] = responseTool{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.Schema}
	}
	return out
}

// items converts a message to items: one for each call, result and piece of
// reasoning, and messages for the text between them.
func items(m conversation.Message) (out []responseItem) {
	var parts []responsePart
	for _, b := range m.Blocks {
		switch {
		case b.Thinking != nil:
			if item, ok := reasoningItem(*b.Thinking); ok {
				out = append(out, item)
			}
		case b.Call != nil:
			out = append(out, responseItem{Type: "function_call", CallID: b.Call.ID, Name: b.Call.Name, Arguments: string(b.Call.Args)})
		case b.Result != nil:
			out = append(out, resultItem(*b.Result))
		case b.Image != nil:
			parts = append(parts, responsePart{Type: "input_image", Detail: "auto", ImageURL: dataURL(*b.Image)})
		case m.Role == conversation.Assistant:
			out = append(out, responseItem{Role: "assistant", Content: b.Text})
		default:
			parts = append(parts, responsePart{Type: "input_text", Text: b.Text})
		}
	}
	if len(parts) > 0 {
		out = append(out, responseItem{Role: "user", Content: parts})
	}
	return out
}

// reasoningItem returns the item that sends reasoning back. Reasoning that
// cannot be decoded, because another version wrote it, is left out.
func reasoningItem(t conversation.Thinking) (responseItem, bool) {
	var o opaque
	if json.Unmarshal([]byte(t.Opaque), &o) != nil || o.Encrypted == "" {
		return responseItem{}, false
	}
	summary := []responsePart{}
	for _, s := range o.Summary {
		summary = append(summary, responsePart{Type: "summary_text", Text: s})
	}
	return responseItem{Type: "reasoning", ID: o.ID, Summary: &summary, EncryptedContent: o.Encrypted}, true
}

func resultItem(r conversation.ToolResult) responseItem {
	item := responseItem{Type: "function_call_output", CallID: r.CallID, Output: resultText(r)}
	if len(r.Images) == 0 {
		return item
	}
	parts := []responsePart{{Type: "input_text", Text: resultText(r)}}
	for _, img := range r.Images {
		parts = append(parts, responsePart{Type: "input_image", ImageURL: dataURL(img)})
	}
	item.Output = parts
	return item
}
