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
	"regexp"
	"time"

	"aloft/internal/hook"
)

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
	LoopLimit  int  // maximum number of consecutive followup_message results that are acted on
	File       string
	matcher    *regexp.Regexp // nil matches everything
	claude     bool           // uses Claude's format
	plugin     string         // folder of the plugin that it belongs to, or ""
}

// SystemFile is the path of a machine's own hooks.
const SystemFile = "/etc/cursor/hooks.json"

// Subject returns the value that an event's matchers are compared with, taken
// from the event's fields: the command, the subagent's type, or the tool's
// name.
func Subject(e hook.Event, fields map[string]any) string {
	key := "tool_name"
	switch e {
	case hook.BeforeShellExecution, hook.AfterShellExecution:
		key = "command"
	case hook.SubagentStart, hook.SubagentStop:
		key = "subagent_type"
	}
	s, _ := fields[key].(string) // "" for events that have none
	return s
}
