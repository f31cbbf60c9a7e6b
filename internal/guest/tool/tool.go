// Package tool implements the tools that exec-daemon runs in a machine, one
// file for each. A tool receives its arguments as a protobuf message. It does
// no decoding and no permission checks: execd adds the sandbox, redaction and
// timing. Complex parts of tools (the shell, notebooks, PDFs, the web) have
// their own packages.
package tool

import (
	"context"
	"errors"
	"io/fs"

	"aloft/internal/guest/file"
	"aloft/internal/wire/agentv1"
)

// A Tool runs one kind of call.
type Tool struct {
	Name string // as in the catalogue: "Grep"
	// Bounded says that the tool limits the size of its results itself and says
	// how to read more. execd truncates long results of other tools.
	Bounded bool
	// Lacks returns an error that names the programs which this tool needs and
	// the machine lacks, or nil. It is called whenever the available tools are
	// listed, so it must be fast. If Lacks is nil, the tool works in every
	// machine.
	Lacks func() error
	// Run runs a call, whose arguments are set, and returns the call with its result set.
	// Run passes partial results to emit as they arrive; emit may block but does not fail.
	// When ctx ends, Run stops what it started and returns soon; context.Cause says why.
	// Run is safe for concurrent use.
	Run func(ctx context.Context, call *agentv1.ToolCall, emit Emit) Outcome
}

// errNoArguments is returned for a call without arguments. execd rejects such
// calls earlier.
var errNoArguments = errors.New("the call has no arguments")

// Emit receives part of a result.
type Emit func(*agentv1.ToolCallDelta)

// Outcome is the result of a call.
type Outcome struct {
	Call     *agentv1.ToolCall // with its result, and without its arguments
	Text     string            // the result as text for the model
	Error    bool              // the call failed
	Failure  agentv1.FailureKind
	Pictures []*agentv1.Picture
}

// timeoutError says that a call exceeded its timeout.
type timeoutError struct{ error }

// outcomeOf returns the outcome of a call. Its text is that of the error, if there is
// one.
func outcomeOf(call *agentv1.ToolCall, text string, err error) Outcome {
	return Outcome{Call: call, Text: text, Error: err != nil, Failure: failureOf(err)}
}

// failureOf returns the kind of a failure; unspecified for nil or an unknown
// error.
func failureOf(err error) agentv1.FailureKind {
	if _, ok := errors.AsType[timeoutError](err); ok || errors.Is(err, context.DeadlineExceeded) {
		return agentv1.FailureKind_FAILURE_KIND_TIMEOUT
	}
	if file.IsDenied(err) || errors.Is(err, fs.ErrPermission) {
		return agentv1.FailureKind_FAILURE_KIND_PERMISSION_DENIED
	}
	return agentv1.FailureKind_FAILURE_KIND_UNSPECIFIED
}
