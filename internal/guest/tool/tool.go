// Package tool is the hands of an agent: one tool, one file. A tool decodes
// nothing and permits nothing: its arguments come as their protobuf message,
// and sandbox, redaction and timing are put around it by execd. It is long
// because the tools are many; what is hard in one of them (a shell, a notebook, a
// PDF, the web) is in a package of its own.
package tool

import (
	"context"
	"errors"
	"io/fs"

	"aloft/internal/wire/agentv1"
)

// A Tool runs one kind of call.
type Tool struct {
	Name string // as in the catalogue: "Grep"
	// Bounded says that the tool keeps its results short by itself and tells how
	// to read on. A result of another that is too long is cut by execd.
	Bounded bool
	// Lacks says what the machine lacks for the tool, nil if nothing. It is asked
	// each time that somebody wants to know which tools there are, and is quick;
	// without it the tool works everywhere.
	Lacks func() error
	// Run works the call, whose arguments are set, to its end, and returns it
	// with its result set. It sends parts of the result to emit as they come;
	// emit may block, and does not fail. When ctx ends Run stops what it started
	// and returns soon; context.Cause says why. Run is safe for concurrent use.
	Run func(ctx context.Context, call *agentv1.ToolCall, emit Emit) Outcome
}

// errNoArguments is for a call that holds none; execd lets none come so far.
var errNoArguments = errors.New("the call has no arguments")

// Emit takes a part of a result.
type Emit func(*agentv1.ToolCallDelta)

// Outcome is what came of a call.
type Outcome struct {
	Call     *agentv1.ToolCall // with its result, and without its arguments
	Text     string            // the result as the model reads it
	Error    bool              // the call did not do what was asked
	Failure  agentv1.FailureKind
	Pictures []*agentv1.Picture
}

// timeoutError says that the time that a call had was up.
type timeoutError struct{ error }

// failureOf is why a call failed, as far as its error says; unspecified for nil.
func failureOf(err error) agentv1.FailureKind {
	if _, ok := errors.AsType[timeoutError](err); ok || errors.Is(err, context.DeadlineExceeded) {
		return agentv1.FailureKind_FAILURE_KIND_TIMEOUT
	}
	if _, ok := errors.AsType[deniedError](err); ok || errors.Is(err, fs.ErrPermission) {
		return agentv1.FailureKind_FAILURE_KIND_PERMISSION_DENIED
	}
	return agentv1.FailureKind_FAILURE_KIND_UNSPECIFIED
}
