package permit

import (
	"fmt"
	"time"
)

// Mode is a run mode: how much an agent may do without asking.
type Mode string

// The run modes.
const (
	AutoReview    Mode = "auto-review"
	Allowlist     Mode = "allowlist"
	RunEverything Mode = "run-everything"
)

// Modes lists all run modes, strictest first.
var Modes = []Mode{Allowlist, AutoReview, RunEverything}

// ParseMode returns the mode of that name, or an error that lists all modes.
func ParseMode(s string) (Mode, error) {
	for _, m := range Modes {
		if string(m) == s {
			return m, nil
		}
	}
	return "", fmt.Errorf("invalid run mode %q: must be one of %v", s, Modes)
}

// Strictest returns the strictest of the modes. It ignores ""; if all are "", it returns
// "".
func Strictest(modes ...Mode) Mode {
	for _, m := range Modes {
		for _, have := range modes {
			if have == m {
				return m
			}
		}
	}
	return ""
}

// ParseDenyAfter parses the timeout after which an unanswered approval counts
// as denied: a duration such as 8h, greater than zero and at most a year.
func ParseDenyAfter(s string) (time.Duration, error) {
	const longest = 365 * 24 * time.Hour
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > longest {
		return 0, fmt.Errorf("invalid duration %q: use a value such as 8h or 30m, at most %s", s, longest)
	}
	return d, nil
}

// Kind classifies a call by its effect, for the run modes.
type Kind int

// The kinds of calls. Every mode runs Other without asking: such a call affects
// only the workspace, folders for temporary files, and the conversation.
const (
	Other Kind = iota
	Shell
	MCP
	Fetch
	// Desktop is input by pointer and keyboard, whose effect on programs is
	// unknown.
	Desktop
	// Config is a change to a file with rules for the agent, such as
	// permissions.json. Every mode asks first.
	Config
	// Protected is a change to a file that a command in the sandbox could not change: a
	// file from which git, shells or editors run commands, or a file outside of the
	// workspace.
	Protected
)

// A Call is a tool call to check.
type Call struct {
	Kind   Kind
	Line   string // command line of Shell
	Server string // server of an MCP call
	Tool   string // tool of an MCP call
	Rule   string // of Protected: the rule that protects the file
	// Unsandboxed requests to run a shell command outside of the sandbox, because the
	// command needs more access or has failed in the sandbox.
	Unsandboxed bool
	// Allowed means that a person has allowed this call, or calls of this kind
	// by this agent.
	Allowed bool
}

// Setting holds the conditions under which a call is checked.
type Setting struct {
	Mode        Mode
	Permissions Permissions
	// Sandbox means that commands should run in the sandbox if possible. In the mode
	// AutoReview they always do.
	Sandbox bool
	// Enforced means that the sandbox can enforce its policy in this machine.
	// If the sandbox cannot, sandboxed commands do not run at all.
	Enforced bool
	// Unreadable means that a file of rules is invalid. Its deny rules are
	// unknown, so nothing is allowed without asking.
	Unreadable bool
}

// Treatment is the decision about a call: run it, sandbox it, ask or refuse.
type Treatment string

// The possible treatments of a call.
const (
	Run       Treatment = "run"
	Sandboxed Treatment = "sandboxed" // run in the sandbox
	Classify  Treatment = "classify"  // the classifier decides
	Ask       Treatment = "ask"       // a person decides
)

// A Decision is a treatment and its reason.
type Decision struct {
	Treatment Treatment
	Why       string // the deciding rule, for people
}

// Check decides about a call. It applies the checks in the order documented for
// the run modes.
func Check(c Call, s Setting) Decision {
	switch {
	case c.Allowed:
		return Decision{Run, "a person has allowed it"}
	case c.Kind == Config:
		return Decision{Ask, "it changes the rules for the agent"}
	case c.Kind == Other:
		return Decision{Run, "it needs no approval in any run mode"}
	case s.Mode == RunEverything:
		return Decision{Run, "the run mode is run-everything"}
	case s.Unreadable:
		return Decision{Ask, "a file of permissions could not be read"}
	}
	listed, why := s.listed(c)
	if listed {
		return Decision{Run, why}
	}
	if c.Kind == Shell && !c.Unsandboxed && (s.Mode == AutoReview || s.Sandbox) {
		if s.Enforced {
			return Decision{Sandboxed, "it is not on the allowlist, and runs in the sandbox: " + why}
		}
		return Decision{Ask, "this machine cannot enforce the sandbox, and the command does not run outside it without approval"}
	}
	if s.Mode == AutoReview {
		return Decision{Classify, why}
	}
	return Decision{Ask, why}
}

// listed reports whether an allow list allows the call, with the reason.
func (s Setting) listed(c Call) (bool, string) {
	switch c.Kind {
	case Shell:
		v := s.Permissions.JudgeLine(c.Line)
		if v.Allowed {
			return true, "the allowlist allows every command of it"
		}
		return false, v.Why
	case MCP:
		if e := s.Permissions.AllowsMCP(c.Server, c.Tool); e != "" {
			return true, "the allowlist has " + e
		}
		return false, fmt.Sprintf("no entry of mcpAllowlist allows %s:%s", c.Server, c.Tool)
	}
	if c.Kind == Protected {
		return false, "the file is " + c.Rule
	}
	return false, "there is no allowlist for it"
}
