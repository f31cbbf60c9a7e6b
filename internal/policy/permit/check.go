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

// Modes are all run modes, the strictest first.
var Modes = []Mode{Allowlist, AutoReview, RunEverything}

// ParseMode returns the mode of that name, or an error that names them all.
func ParseMode(s string) (Mode, error) {
	for _, m := range Modes {
		if string(m) == s {
			return m, nil
		}
	}
	return "", fmt.Errorf("run mode %q: it is one of %v", s, Modes)
}

// Strictest returns the mode that asks most. Modes that are "" do not count; ""
// if none counts.
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

// ParseDenyAfter reads how long a question may wait before it counts as denied:
// a duration such as 8h, not zero and at most a year.
func ParseDenyAfter(s string) (time.Duration, error) {
	const longest = 365 * 24 * time.Hour
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > longest {
		return 0, fmt.Errorf("%q is no time to wait: it is as in 8h or 30m, and at most %s", s, longest)
	}
	return d, nil
}

// Kind is what a call does, as far as the run modes care.
type Kind int

// The kinds of calls. Every mode lets Other run: such a call reaches nothing
// but the workspace, folders for temporary files, and the conversation.
const (
	Other Kind = iota
	Shell
	MCP
	Fetch
	// Desktop is what is done with pointer and keyboard: what programs make of it is not known.
	Desktop
	// Config is a change to a file that holds rules for the agent, such as
	// permissions.json. It is a proposal in every mode.
	Config
	// Protected is a change to a file that a command in the sandbox could not
	// change: one that git, shells or editors run commands from, or that lies
	// outside of the workspace.
	Protected
)

// A Call is what is checked.
type Call struct {
	Kind   Kind
	Line   string // of Shell
	Server string // of MCP
	Tool   string // of MCP
	Rule   string // of Protected: what protects the file
	// Unsandboxed asks for a shell command outside of the sandbox, because it
	// needs more than that gives or has failed in it.
	Unsandboxed bool
	// Allowed says that a person has allowed this call, or calls like it for
	// this agent.
	Allowed bool
}

// Setting is under what a call is checked.
type Setting struct {
	Mode        Mode
	Permissions Permissions
	// Sandbox says that commands are to run in the sandbox where they may. Under
	// Auto-review they always are.
	Sandbox bool
	// Enforced says that the sandbox can hold its policy in this machine. Where
	// it cannot, nothing runs outside in its place.
	Enforced bool
	// Unreadable says that a file of rules could not be read: what it would have
	// blocked is not known, so that nothing is allowed without asking.
	Unreadable bool
}

// Treatment is what is done with a call.
type Treatment string

// The treatments.
const (
	Run       Treatment = "run"
	Sandboxed Treatment = "sandboxed" // run in the sandbox
	Classify  Treatment = "classify"  // the classifier decides
	Ask       Treatment = "ask"       // a person decides
)

// A Decision is a treatment and its reason.
type Decision struct {
	Treatment Treatment
	Why       string // for a person: which rule decided
}

// Check decides, in the order that the run modes have.
func Check(c Call, s Setting) Decision {
	switch {
	case c.Allowed:
		return Decision{Run, "a person has allowed it"}
	case c.Kind == Config:
		return Decision{Ask, "it changes the rules that the agent works under"}
	case c.Kind == Other:
		return Decision{Run, "run modes let it run"}
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
		return Decision{Ask, "the sandbox cannot be enforced in this machine, and nothing runs outside in its place"}
	}
	if s.Mode == AutoReview {
		return Decision{Classify, why}
	}
	return Decision{Ask, why}
}

// listed reports whether an allowlist allows the call, and why or why not.
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
