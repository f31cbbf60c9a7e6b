// Package conversation is what is said between a person, a model and its tools.
package conversation

import (
	"encoding/json"
	"slices"
	"strings"
)

// Role is who speaks.
type Role string

// Roles. The results of tools are the user's to say.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one speaker's turn.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
}

// Block is one part of a message: exactly one of its fields is set.
type Block struct {
	Text     string      `json:"text,omitempty"`
	Image    *Image      `json:"image,omitempty"`
	Thinking *Thinking   `json:"thinking,omitempty"`
	Call     *ToolCall   `json:"call,omitempty"`
	Result   *ToolResult `json:"result,omitempty"`
}

// Image is a picture.
type Image struct {
	MediaType string `json:"mediaType"` // image/png, image/jpeg, image/gif, image/webp
	Data      []byte `json:"data"`
}

// Thinking is a model's reasoning. Provider and Opaque let it be given back, unchanged,
// to the provider that it came from, and to no other.
type Thinking struct {
	Text     string `json:"text,omitempty"`
	Provider string `json:"provider,omitempty"`
	Opaque   string `json:"opaque,omitempty"`
}

// ToolCall is a model's wish to use a tool.
type ToolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"` // as in the catalogue: "Grep"
	Args json.RawMessage `json:"args"` // a JSON object, or what the model wrote in place of one
	// Shell is in which of the machine's shells it is worked; "" is the agent's own.
	// Whoever sends the call knows.
	Shell string `json:"-"`
	// Guarded says that the path of a file tool was judged, and is to be judged again
	// where its symbolic links lead. Whoever sends the call knows.
	Guarded bool `json:"-"`
}

// ToolResult is what came of a call.
type ToolResult struct {
	CallID string  `json:"callId"`
	Text   string  `json:"text"`
	Error  bool    `json:"error,omitempty"`
	Images []Image `json:"images,omitempty"`
}

// Text is a message of text alone.
func Text(role Role, text string) Message {
	return Message{Role: role, Blocks: []Block{{Text: text}}}
}

// LastWith returns the text of the role that begins with prefix and was said last,
// "" if there is none.
func LastWith(messages []Message, role Role, prefix string) string {
	for _, m := range slices.Backward(messages) {
		for _, b := range slices.Backward(m.Blocks) {
			if m.Role == role && strings.HasPrefix(b.Text, prefix) {
				return b.Text
			}
		}
	}
	return ""
}

// Calls returns the tool calls of m, in order.
func (m Message) Calls() []ToolCall {
	var calls []ToolCall
	for _, b := range m.Blocks {
		if b.Call != nil {
			calls = append(calls, *b.Call)
		}
	}
	return calls
}

// PlainText returns the text of m without its other parts.
func (m Message) PlainText() string {
	var s string
	for _, b := range m.Blocks {
		s += b.Text
	}
	return s
}

// Usage counts tokens, and what is known of their cost.
type Usage struct {
	Input      int64 `json:"input"` // neither read from a cache nor written to one
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	// Cost is what Priced of the tokens cost, in billionths of a US dollar, at the
	// prices when they were used. What the others cost is not known.
	Cost   int64 `json:"cost,omitempty"`
	Priced int64 `json:"priced,omitempty"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Cost + v.Cost, u.Priced + v.Priced}
}

// Total is all tokens of u.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Context is the tokens of the conversation after the reply that u counts.
func (u Usage) Context() int64 { return u.Total() }
