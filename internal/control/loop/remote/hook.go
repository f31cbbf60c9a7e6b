package remote

import (
	"encoding/json"

	"aloft/internal/agent"
)

// HookCall is a request to run the hooks for some events.
type HookCall struct {
	Events    []HookEvent
	LoopCount int // how often in a row a hook has made the agent continue
	// Transcript is the part of the transcript from byte TranscriptAt on, which
	// the machine lacks.
	Transcript   []byte
	TranscriptAt int64
}

// HookEvent is an event for which hooks may run.
type HookEvent struct {
	Name    string
	Subject string // the text to which hooks' matchers are compared
	Fields  any    // a JSON object
	OfShell bool   // the machine adds a shell's working directory
	Shell   string // which shell; "" is the agent's
}

// HookOutcome is the combined outcome of a machine's hooks.
type HookOutcome struct {
	Permission   string // "deny", "ask" or ""
	UserMessage  string
	AgentMessage string
	UpdatedInput json.RawMessage // a JSON object; nil if no hook changed the input
	Context      string
	UpdatedMCP   json.RawMessage // replaces an MCP tool's result; nil if no hook changed it
	Stopped      bool
	Followup     string
	Ran          []agent.HookRan
	Present      []string // the events that have hooks
	Transcript   int64    // how many bytes of it the machine has
}
