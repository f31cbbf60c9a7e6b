// Package conversation defines the messages between a person, a model and its
// tools.
package conversation

import (
	"encoding/json"
	"slices"
)

// Role is the author of a message.
type Role string

// Roles. Tool results are in the user's messages.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one turn of one author.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
}

// Block is one part of a message. Exactly one of its fields is set.
type Block struct {
	Text     string      `json:"text,omitempty"`
	Image    *Image      `json:"image,omitempty"`
	Thinking *Thinking   `json:"thinking,omitempty"`
	Call     *ToolCall   `json:"call,omitempty"`
	Result   *ToolResult `json:"result,omitempty"`
}

// Image is an image.
type Image struct {
	MediaType string `json:"mediaType"` // image/png, image/jpeg, image/gif or image/webp
	Data      []byte `json:"data"`
}

// Thinking is a model's reasoning. Provider and Opaque allow sending it back unchanged,
// but only to the provider from which it came.
type Thinking struct {
	Text     string `json:"text,omitempty"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"` // the provider's name of the model; "" in older journals
	Opaque   string `json:"opaque,omitempty"`
}

// ToolCall is a model's call of a tool.
type ToolCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"` // as in the catalogue: "Grep"
	Args json.RawMessage `json:"args"` // a JSON object, or any other text that the model wrote
	// Shell is the machine's shell in which the call runs; "" is the agent's.
	// The sender of the call sets it.
	Shell string `json:"-"`
	// Guarded says that the path of a file tool was checked, and must be
	// checked again in the machine after resolving symbolic links. The sender
	// of the call sets it.
	Guarded bool `json:"-"`
	// Unhooked says that no hooks were run for the call, because none were known. If the
	// machine has hooks, it refuses to start the call. The sender of the call sets
	// Unhooked.
	Unhooked bool `json:"-"`
	// Guard lists the checks that the machine makes before it runs an allow-listed shell
	// command outside of the sandbox; nil means none. The sender of the call sets Guard.
	Guard *Guard `json:"-"`
	// Payload is data that the server adds to the call in addition to the arguments, such
	// as a generated image. The sender of the call sets Payload.
	Payload []byte `json:"-"`
}

// Guard describes a shell command so that the machine can check whether sandboxed
// commands could have changed which programs the command starts. If they could, the
// command runs in the sandbox.
type Guard struct {
	Git       bool     // the command runs git
	Folders   []string // folders to which it changes before that, in order; each is absolute or relative to the previous ones
	Elsewhere bool     // it may run git in other folders too
	Refuse    bool     // refuse the command instead of running it in the sandbox, because it requested to run outside
}

// ToolResult is the result of a call.
type ToolResult struct {
	CallID string  `json:"callId"`
	Text   string  `json:"text"`
	Error  bool    `json:"error,omitempty"`
	Images []Image `json:"images,omitempty"`
}

// Text returns a message with only text.
func Text(role Role, text string) Message {
	return Message{Role: role, Blocks: []Block{{Text: text}}}
}

// Has reports whether m has a block with exactly that text.
func (m Message) Has(text string) bool {
	return slices.ContainsFunc(m.Blocks, func(b Block) bool { return b.Text == text })
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

// Usage counts tokens and their known cost.
type Usage struct {
	Input      int64 `json:"input"` // tokens that were neither read from a cache nor written to one
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	// Cost is the cost of the Priced tokens, in billionths of a US dollar, at the prices
	// when they were used. The cost of the other tokens is unknown.
	Cost   int64 `json:"cost,omitempty"`
	Priced int64 `json:"priced,omitempty"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Cost + v.Cost, u.Priced + v.Priced}
}

// Total returns the number of all tokens of u.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Context returns the number of tokens in the conversation after the reply whose usage
// is u.
func (u Usage) Context() int64 { return u.Total() }
