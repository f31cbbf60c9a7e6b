// Package fault says what kind of failure an error is, to the person who has
// to act on it. An error that is not a fault is Internal: it is logged, and its
// text is shown to nobody.
package fault

import (
	"errors"
	"fmt"
)

// Kind is what a caller can do about a failure.
type Kind int

// Kinds, in the order in which a person meets them.
const (
	KindInternal        Kind = iota // ours; the text is for the log
	KindInvalid                     // the request cannot be right; mend it
	KindUnauthenticated             // say who you are
	KindDenied                      // you may not
	KindNotFound                    // there is no such thing
	KindConflict                    // not now, in this state
	KindExhausted                   // too much, or too often
	KindUnavailable                 // try again later
	KindGone                        // there was such a thing
	KindNotImplemented              // not in this version
)

// Error is a failure with a kind. Its methods return the error itself, so that
// it reads as one sentence where it is made:
//
//	return fault.Invalid("install: %v", err).Hint("see docs/guide/environment.md")
type Error struct {
	Kind    Kind
	Code    string // for programs, snake_case: agent_busy
	Field   string // of the request, in JSON's words: prompt.text
	Message string // for a person; holds no secret
	Advice  string // what to do next
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

// Hint says what to do next.
func (e *Error) Hint(format string, args ...any) *Error {
	e.Advice = fmt.Sprintf(format, args...)
	return e
}

// Named gives the error its code.
func (e *Error) Named(code string) *Error { e.Code = code; return e }

// At names the field of the request that is wrong.
func (e *Error) At(field string) *Error { e.Field = field; return e }

// Because records the cause, for the log.
func (e *Error) Because(err error) *Error { e.Cause = err; return e }

// Invalid is a request that cannot be right.
func Invalid(format string, args ...any) *Error {
	return newError(KindInvalid, "validation_error", format, args)
}

// Unauthenticated is a caller who did not say who they are.
func Unauthenticated(format string, args ...any) *Error {
	return newError(KindUnauthenticated, "unauthorized", format, args)
}

// Denied is a caller who may not do this.
func Denied(format string, args ...any) *Error {
	return newError(KindDenied, "forbidden", format, args)
}

// NotFound is a thing that is not there.
func NotFound(format string, args ...any) *Error {
	return newError(KindNotFound, "not_found", format, args)
}

// Conflict is a thing in another state than the request needs.
func Conflict(format string, args ...any) *Error {
	return newError(KindConflict, "conflict", format, args)
}

// Exhausted is a limit that was reached.
func Exhausted(format string, args ...any) *Error {
	return newError(KindExhausted, "usage_limit_exceeded", format, args)
}

// Unavailable is a thing that may work later.
func Unavailable(format string, args ...any) *Error {
	return newError(KindUnavailable, "unavailable", format, args)
}

// Gone is a thing that was there and is kept no longer.
func Gone(format string, args ...any) *Error { return newError(KindGone, "gone", format, args) }

// NotImplemented is a part of the API that this version does not have.
func NotImplemented(format string, args ...any) *Error {
	return newError(KindNotImplemented, "not_implemented", format, args)
}

func newError(k Kind, code, format string, args []any) *Error {
	return &Error{Kind: k, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Of returns the fault in err's chain. An error without one becomes an
// Internal fault whose message says nothing and whose cause is err.
func Of(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	return &Error{Kind: KindInternal, Code: "internal", Message: "internal error", Cause: err}
}

// Is reports whether err's fault is of the kind.
func Is(err error, k Kind) bool { return err != nil && Of(err).Kind == k }
