// Package hook runs the scripts that a project, a user, a team or the machine
// has configured for an agent's events: before and after a tool call, at the
// start and the end of a session, and so on. It reads hooks.json (and the hooks
// of .claude/settings.json), runs the hooks that match, and combines their
// results.
//
// Hooks run in the machine as the agent's user and are untrusted: a hook can
// deny, change or comment on an action, but it can never allow what the control
// plane's policy denies.
package hook

import (
	"encoding/json"
	"regexp"
	"time"
)

// An Event is something that hooks can be run for.
type Event string

// The events, with their names in hooks.json.
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

// Defaults and limits of hooks.
const (
	defaultTimeout   = 60 * time.Second
	maxTimeout       = 10 * time.Minute
	defaultLoopLimit = 5       // the default of hooks.json
	maxOutput        = 1 << 20 // bytes of a hook's stdout; more is a failure
	maxFile          = 1 << 20 // bytes of a hooks.json
	maxHooks         = 500     // in one file
)

// A Hook is a script and the condition for running it.
type Hook struct {
	Command    string
	Timeout    time.Duration
	FailClosed bool // a failure of the hook denies the action
	LoopLimit  int  // how many followup_message results in a row are acted on
	File       string
	matcher    *regexp.Regexp // nil matches everything
	claude     bool           // uses Claude's format
}

// Permission is a hook's decision about an action.
type Permission string

// The permissions, the strictest last.
const (
	None  Permission = ""
	Allow Permission = "allow"
	Ask   Permission = "ask"
	Deny  Permission = "deny"
)

// strictest returns the stricter of two permissions.
func strictest(a, b Permission) Permission {
	order := map[Permission]int{None: 0, Allow: 1, Ask: 2, Deny: 3}
	if order[b] > order[a] {
		return b
	}
	return a
}

// An Input is the input of an event's hooks.
type Input struct {
	Event   Event
	Subject string // compared with matchers: a tool's name, a command, or a subagent's type
	// Fields are the event's own fields, in addition to those that every hook
	// receives.
	Fields map[string]any
	// LoopCount is how many followup_message results in a row have been acted
	// on.
	LoopCount int
}

// An Outcome is the combined result of an event's hooks.
type Outcome struct {
	Permission        Permission        `json:"permission,omitempty"`
	UserMessage       string            `json:"userMessage,omitempty"`
	AgentMessage      string            `json:"agentMessage,omitempty"`
	UpdatedInput      json.RawMessage   `json:"updatedInput,omitempty"` // nil if no hook changed it
	AdditionalContext string            `json:"additionalContext,omitempty"`
	UpdatedMCPOutput  json.RawMessage   `json:"updatedMcpToolOutput,omitempty"`
	Stopped           bool              `json:"stopped,omitempty"` // a hook returned continue: false
	FollowupMessage   string            `json:"followupMessage,omitempty"`
	Env               map[string]string `json:"env,omitempty"` // set by sessionStart hooks
	Ran               []Ran             `json:"ran,omitempty"`
}

// Ran describes the run of one hook.
type Ran struct {
	Command string        `json:"command"`
	File    string        `json:"file"`
	Exit    int           `json:"exit"` // exit code; -1 if it did not run or was killed
	Took    time.Duration `json:"nanoseconds"`
	Failure string        `json:"failure,omitempty"` // why it failed; "" if it did not
	Stderr  string        `json:"stderr,omitempty"`  // the end of its stderr
}

// SystemFile is the path of a machine's own hooks.
const SystemFile = "/etc/cursor/hooks.json"

// Subject returns the value that an event's matchers are compared with, taken
// from the event's fields: the command, the subagent's type, or the tool's
// name.
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
