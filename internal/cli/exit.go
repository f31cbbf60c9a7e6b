package cli

import (
	"context"
	"errors"
	"net/http"

	"aloft/internal/client"
)

// Exit codes. docs/reference/exit-codes.md says them to people.
const (
	OK          = 0
	Failure     = 1
	Usage       = 2   // how it was called, or how it is configured
	RunFailed   = 3   // the run ended, and not in FINISHED
	NotFound    = 4   // no such agent, run or path
	Denied      = 5   // not signed in, or not allowed
	Unreachable = 6   // no server answers
	Interrupted = 130 // Ctrl-C
)

// Problem is an error made ready for a person.
type Problem struct {
	Exit    int
	Code    string // for programs
	Message string // "" for none: all was said
	Hint    string // what to do
	Err     error
}

func (p *Problem) Error() string { return p.Message }

// Unwrap returns what the problem was made of.
func (p *Problem) Unwrap() error { return p.Err }

// ProblemOf says what an error is to a person. An error that is no [*Problem]
// and none of package client's has exit code 1 and no hint.
func ProblemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		return refusal(e)
	}
	if e, ok := errors.AsType[*client.UnreachableError](err); ok {
		return &Problem{
			Exit: Unreachable, Code: "unreachable", Message: e.Error(), Err: err,
			Hint: "is the server running? start it with `aloft serve`, or name another with --url, ALOFT_URL or `aloft login`",
		}
	}
	if errors.Is(err, context.Canceled) {
		return &Problem{Exit: Interrupted, Code: "interrupted", Message: "interrupted", Err: err}
	}
	return &Problem{Exit: Failure, Code: "failure", Message: err.Error(), Err: err}
}

// hints say what to do about a server's refusal, by its code.
var hints = map[string]string{
	"agent_busy":        "wait until its run has ended, or end it with `aloft agent stop`",
	"agent_archived":    "bring it back with `aloft agent unarchive`",
	"agent_id_conflict": "`aloft agent list` shows it",
}

func refusal(e *client.Error) *Problem {
	p := &Problem{Exit: Failure, Code: e.Code, Message: e.Message, Hint: hints[e.Code], Err: e}
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		p.Exit = Usage
	case http.StatusUnauthorized:
		p.Exit, p.Hint = Denied, "sign in with `aloft login`, or set ALOFT_API_KEY to a key of this server"
	case http.StatusForbidden:
		p.Exit = Denied
	case http.StatusNotFound, http.StatusGone:
		p.Exit = NotFound
		if p.Hint == "" {
			p.Hint = "`aloft agent list` shows the agents that there are"
		}
	}
	if e.Status >= 500 && e.RequestID != "" && p.Hint == "" {
		p.Hint = "the server's log has more, under request " + e.RequestID
	}
	if e.HelpURL != "" {
		p.Hint = "see " + e.HelpURL
	}
	return p
}
