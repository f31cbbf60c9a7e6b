package cli

import (
	"context"
	"errors"
	"net/http"

	"aloft/internal/client"
)

// Exit codes. They are documented in docs/reference/exit-codes.md.
const (
	OK          = 0
	Failure     = 1
	Usage       = 2   // invalid arguments or configuration
	RunFailed   = 3   // the run ended with a status other than FINISHED
	NotFound    = 4   // no such agent, run or path
	Denied      = 5   // not signed in, or not allowed
	Unreachable = 6   // the server does not answer
	Interrupted = 130 // Ctrl-C
)

// Problem is an error with a message and a hint for people.
type Problem struct {
	Exit    int
	Code    string // error code, for programs
	Message string // "" if the error has been printed already
	Hint    string // how to fix it
	Err     error
}

func (p *Problem) Error() string { return p.Message }

// Unwrap returns the underlying error.
func (p *Problem) Unwrap() error { return p.Err }

// ProblemOf converts err to a Problem. An error that is neither a [*Problem] nor from
// package client gets exit code 1 and no hint.
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
			Hint: "is the server running? start it with `aloft serve`, or choose another with --url, ALOFT_URL or `aloft login`",
		}
	}
	if errors.Is(err, context.Canceled) {
		return &Problem{Exit: Interrupted, Code: "interrupted", Message: "interrupted", Err: err}
	}
	return &Problem{Exit: Failure, Code: "failure", Message: err.Error(), Err: err}
}

// hints maps the error codes of a server to hints.
var hints = map[string]string{
	"agent_busy":        "wait until its run ends, or stop it with `aloft agent stop`",
	"agent_archived":    "restore it with `aloft agent unarchive`",
	"agent_id_conflict": "see the existing agent with `aloft agent list`",

	"agent_not_found":       "list agents with `aloft agent list`",
	"api_key_not_found":     "list keys with `aloft key list`",
	"artifact_not_found":    "list artifacts with `aloft agent artifacts`",
	"build_not_found":       "list builds with `aloft env builds`",
	"environment_not_found": "list saved environments with `aloft env list`",
	"run_not_found":         "list an agent's runs with `aloft agent show`",
	"secret_not_found":      "list secrets with `aloft secret list`",
	"snapshot_not_found":    "list snapshots with `aloft snapshot list`",
}

func refusal(e *client.Error) *Problem {
	p := &Problem{Exit: Failure, Code: e.Code, Message: e.Message, Hint: hints[e.Code], Err: e}
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		p.Exit = Usage
	case http.StatusUnauthorized:
		p.Exit, p.Hint = Denied, "sign in with `aloft login`, or set ALOFT_API_KEY to a key for this server"
	case http.StatusForbidden:
		p.Exit = Denied
	case http.StatusNotFound, http.StatusGone:
		p.Exit = NotFound
	}
	if e.Status >= 500 && e.RequestID != "" && p.Hint == "" {
		p.Hint = "see the server's log for request " + e.RequestID
	}
	if e.HelpURL != "" {
		p.Hint = "see " + e.HelpURL
	}
	return p
}
