// Package hook runs the scripts that a project, a person, a team or the machine
// wants run around what an agent does: before and after a tool call, at the
// start and the end of a session, and so on. It reads hooks.json (and the hooks
// of .claude/settings.json), runs what matches, and puts the answers together.
//
// Hooks run in the machine, as the agent's user, and are as little trusted as
// anything there: a hook can forbid, change or comment on what is about to
// happen, and can never approve what the control plane's policy refuses.
package hook

import (
	"encoding/json"
	"regexp"
	"time"
)

// An Event is what a hook is run for.
type Event string

// The events, by the names that hooks.json has for them.
const (
	PreToolUse           Event = "preToolUse"
	PostToolUse          Event = "postToolUse"
	PostToolUseFailure   Event = "postToolUseFailure"
	BeforeShellExecution Event = "beforeShellExecution"
	AfterShellExecution  Event = "afterShellExecution"
	BeforeReadFile       Event = "beforeReadFile"
	AfterFileEdit        Event = "afterFileEdit"
	BeforeMCPExecution   Event = "beforeMCPExecution"
	AfterMCPExecution    Event = "afterMCPExecution"
	BeforeSubmitPrompt   Event = "beforeSubmitPrompt"
	PreCompact           Event = "preCompact"
	SubagentStart        Event = "subagentStart"
	SubagentStop         Event = "subagentStop"
	AfterAgentResponse   Event = "afterAgentResponse"
	AfterAgentThought    Event = "afterAgentThought"
	Stop                 Event = "stop"
	SessionStart         Event = "sessionStart"
	SessionEnd           Event = "sessionEnd"
)

// Events are all events.
var Events = []Event{
	PreToolUse, PostToolUse, PostToolUseFailure, BeforeShellExecution, AfterShellExecution, BeforeReadFile, AfterFileEdit,
	BeforeMCPExecution, AfterMCPExecution, BeforeSubmitPrompt, PreCompact, SubagentStart, SubagentStop, AfterAgentResponse,
	AfterAgentThought, Stop, SessionStart, SessionEnd,
}

// Bounds of a hook that says nothing else.
const (
	defaultTimeout   = 60 * time.Second
	maxTimeout       = 10 * time.Minute
	defaultLoopLimit = 5       // as hooks.json has it
	maxOutput        = 1 << 20 // bytes of a hook's stdout; more is a failure
	maxFile          = 1 << 20 // bytes of a hooks.json
	maxHooks         = 500     // of one file
)

// A Hook is one script and when to run it.
type Hook struct {
	Command    string
	Timeout    time.Duration
	FailClosed bool // what goes wrong with it forbids
	LoopLimit  int  // a followup_message counts so often in a row
	File       string
	matcher    *regexp.Regexp // nil matches all
	claude     bool           // speaks the other dialect
}

// Permission is what a hook says of what is about to happen.
type Permission string

// The permissions, the one that counts most last.
const (
	None  Permission = ""
	Allow Permission = "allow"
	Ask   Permission = "ask"
	Deny  Permission = "deny"
)

// strictest returns the permission that counts.
func strictest(a, b Permission) Permission {
	order := map[Permission]int{None: 0, Allow: 1, Ask: 2, Deny: 3}
	if order[b] > order[a] {
		return b
	}
	return a
}

// An Input is what hooks are told.
type Input struct {
	Event   Event
	Subject string // what matchers are held against: a tool's name, a command, a subagent's type
	// Fields are what the event has besides what every hook is told.
	Fields map[string]any
	// LoopCount is how often in a row a followup_message has been heeded.
	LoopCount int
}

// An Outcome is what all hooks of an event say together.
type Outcome struct {
	Permission        Permission        `json:"permission,omitempty"`
	UserMessage       string            `json:"userMessage,omitempty"`
	AgentMessage      string            `json:"agentMessage,omitempty"`
	UpdatedInput      json.RawMessage   `json:"updatedInput,omitempty"` // nil if no hook changed it
	AdditionalContext string            `json:"additionalContext,omitempty"`
	UpdatedMCPOutput  json.RawMessage   `json:"updatedMcpToolOutput,omitempty"`
	Stopped           bool              `json:"stopped,omitempty"` // continue: false
	FollowupMessage   string            `json:"followupMessage,omitempty"`
	Env               map[string]string `json:"env,omitempty"` // of sessionStart
	Ran               []Ran             `json:"ran,omitempty"`
}

// Ran is how one hook went.
type Ran struct {
	Command string        `json:"command"`
	File    string        `json:"file"`
	Exit    int           `json:"exit"` // -1 if it did not run or was killed
	Took    time.Duration `json:"nanoseconds"`
	Failure string        `json:"failure,omitempty"` // what was wrong with it, "" if nothing
	Stderr  string        `json:"stderr,omitempty"`  // the last of it
}

// SystemFile is where a machine's own hooks are.
const SystemFile = "/etc/cursor/hooks.json"

// Subject is what the matchers of an event are held against, by the event's
// fields: the command, the subagent's type, or the tool's name.
func Subject(e Event, fields map[string]any) string {
	key := "tool_name"
	switch e {
	case BeforeShellExecution, AfterShellExecution:
		key = "command"
	case SubagentStart, SubagentStop:
		key = "subagent_type"
	}
	s, _ := fields[key].(string) // "" for events that have none
	return s
}
