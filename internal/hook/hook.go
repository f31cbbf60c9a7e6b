// Package hook defines the types for hooks, the scripts that run in a machine before and
// after an agent's actions: events, inputs and outcomes. The control plane requests the
// hooks of an event, and the machine runs them.
package hook

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// An Event is an occurrence for which hooks can be run.
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
	// receives. They are encoded as a JSON object.
	Fields  map[string]any
	OfShell bool   // the machine adds the shell's working directory
	Shell   string // name of the shell; "" is the agent's
}

// A Call is a request to run the hooks for some events.
type Call struct {
	Events    []Input
	LoopCount int // how many times in a row a hook has made the agent continue
	// Transcript is the part of the transcript that the machine lacks. It starts at byte
	// TranscriptAt.
	Transcript   []byte
	TranscriptAt int64
}

// An Outcome is the combined result of hooks. It comes from the machine, which is not
// trusted: the control plane lets it deny a call or comment on it, and checks a changed
// call again.
type Outcome struct {
	Permission        Permission        `json:"permission,omitempty"`
	UserMessage       string            `json:"userMessage,omitempty"`
	AgentMessage      string            `json:"agentMessage,omitempty"`
	UpdatedInput      json.RawMessage   `json:"updatedInput,omitempty"` // a JSON object; nil if no hook changed it
	AdditionalContext string            `json:"additionalContext,omitempty"`
	UpdatedMCPOutput  json.RawMessage   `json:"updatedMcpToolOutput,omitempty"` // replaces an MCP tool's result; nil if no hook changed it
	Stopped           bool              `json:"stopped,omitempty"`              // a hook returned continue: false
	FollowupMessage   string            `json:"followupMessage,omitempty"`
	Env               map[string]string `json:"env,omitempty"` // set by sessionStart hooks
	Ran               []Ran             `json:"ran,omitempty"`

	// The following fields are the machine's own reports, in addition to the hooks'
	// result.
	Present    []Event  `json:"-"` // the events that have hooks
	Warnings   []string `json:"-"` // parts of files that could not be parsed, each with its file
	Transcript int64    `json:"-"` // how many bytes of the transcript the machine already has
}

// Ran describes the run of one hook.
type Ran struct {
	Command string        `json:"command"`
	File    string        `json:"file"`
	Exit    int           `json:"exit"` // exit code; -1 if the hook did not run or was killed
	Took    time.Duration `json:"nanoseconds"`
	Failure string        `json:"failure,omitempty"` // why the hook failed; "" if it succeeded
	Stderr  string        `json:"stderr,omitempty"`  // the last part of the hook's stderr
}

// Join combines o with a later outcome: the stricter permission, all messages,
// and the later changes.
func (o Outcome) Join(later Outcome) Outcome {
	join := func(to *string, more string) {
		if more != "" && *to != "" {
			*to += "\n"
		}
		*to += more
	}
	o.Permission = strictest(o.Permission, later.Permission)
	join(&o.UserMessage, later.UserMessage)
	join(&o.AgentMessage, later.AgentMessage)
	join(&o.AdditionalContext, later.AdditionalContext)
	join(&o.FollowupMessage, later.FollowupMessage)
	o.Stopped = o.Stopped || later.Stopped
	if later.UpdatedInput != nil {
		o.UpdatedInput = later.UpdatedInput
	}
	if later.UpdatedMCPOutput != nil {
		o.UpdatedMCPOutput = later.UpdatedMCPOutput
	}
	if len(later.Env) > 0 {
		env := map[string]string{}
		maps.Copy(env, o.Env)
		maps.Copy(env, later.Env)
		o.Env = env
	}
	o.Ran = slices.Concat(o.Ran, later.Ran)
	return o
}
