// Package fault defines errors for the person who has to act on them. An error that is
// not a fault counts as internal: the server logs it and does not show its text.
package fault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind classifies failures by how a caller can react to them.
type Kind int

// Kinds of failures.
const (
	KindInternal        Kind = iota // a bug in Aloft; the text is for the log
	KindInvalid                     // the request is wrong; fix it
	KindUnauthenticated             // not authenticated
	KindDenied                      // not authorized
	KindNotFound                    // does not exist
	KindConflict                    // not possible in the current state
	KindExhausted                   // too much or too often
	KindUnavailable                 // try again later
	KindGone                        // existed earlier
	KindNotImplemented              // not supported by this version
)

// Error is a failure with a kind. Its methods return the error itself, so that
// one expression can create it:
//
//	return fault.Invalid("install: %v", err).Hint("see docs/guide/environment.md")
type Error struct {
	Kind    Kind
	Code    string // for programs, snake_case: agent_busy
	Field   string // field of the request, as in its JSON: prompt.text
	Message string // for a person; contains no secret
	Advice  string // the advice
	Cause   error  // for the log
}

func (e *Error) Error() string {
	s := e.Message
	if e.Advice != "" {
		s += " (" + e.Advice + ")"
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Hint sets the advice: the next step for the person.
func (e *Error) Hint(format string, args ...any) *Error {
	e.Advice = fmt.Sprintf(format, args...)
	return e
}

// Named sets the code.
func (e *Error) Named(code string) *Error { e.Code = code; return e }

// At sets the field of the request that is wrong.
func (e *Error) At(field string) *Error { e.Field = field; return e }

// Because sets the cause, for the log.
func (e *Error) Because(err error) *Error { e.Cause = err; return e }

// Invalid returns an error for a request that is wrong.
func Invalid(format string, args ...any) *Error {
	return newError(KindInvalid, "validation_error", format, args)
}

// Unauthenticated returns an error for a caller who is not authenticated.
func Unauthenticated(format string, args ...any) *Error {
	return newError(KindUnauthenticated, "unauthorized", format, args)
}

// Denied returns an error for a caller who is not authorized.
func Denied(format string, args ...any) *Error {
	return newError(KindDenied, "forbidden", format, args)
}

// NotFound returns an error for an object that does not exist.
func NotFound(format string, args ...any) *Error {
	return newError(KindNotFound, "not_found", format, args)
}

// Conflict returns an error for an object that is not in the state that the request
// needs.
func Conflict(format string, args ...any) *Error {
	return newError(KindConflict, "conflict", format, args)
}

// Exhausted returns an error for a limit that was reached.
func Exhausted(format string, args ...any) *Error {
	return newError(KindExhausted, "usage_limit_exceeded", format, args)
}

// Unavailable returns an error for a request that may succeed later.
func Unavailable(format string, args ...any) *Error {
	return newError(KindUnavailable, "unavailable", format, args)
}

// Gone returns an error for an object that is no longer stored.
func Gone(format string, args ...any) *Error { return newError(KindGone, "gone", format, args) }

// NotImplemented returns an error for a part of the API that this version does
// not support.
func NotImplemented(format string, args ...any) *Error {
	return newError(KindNotImplemented, "not_implemented", format, args)
}

func newError(k Kind, code, format string, args []any) *Error {
	return &Error{Kind: k, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Of returns the fault in err's chain. If there is none, it returns an internal fault
// with a generic message and err as its cause.
func Of(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	return &Error{Kind: KindInternal, Code: "internal", Message: "internal error", Cause: err}
}

// Has reports whether err's chain has a fault.
func Has(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// Is reports whether err's fault has the kind.
func Is(err error, k Kind) bool { return err != nil && Of(err).Kind == k }

// Quoted quotes and shortens untrusted text for an error message.
func Quoted(text string) string {
	const most = 200
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strconv.Quote(strings.ToValidUTF8(text, "�"))
}
