// Package model says what a language model is to Aloft: something that answers
// a conversation as a stream. The providers are the packages below this one;
// modeltest holds them to these words, on a server as strict as the real ones.
package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// A Model answers conversations. It is safe for concurrent use.
type Model interface {
	// Stream asks for one reply. The sequence yields the reply's parts as they
	// come and, last, one Event whose Done is set; or it yields an error and ends.
	// Errors of the provider are *[Error]. Stream does not retry. Breaking off the
	// sequence or ending ctx ends the request.
	Stream(ctx context.Context, req Request) iter.Seq2[Event, error]
}

// Request is what a model is asked.
type Request struct {
	System    string
	Messages  []conversation.Message // begins with the user; every call has its result in the next message
	Tools     []tool.Spec
	MaxTokens int // of the reply; 0 is the model's own
	// Cache holds the encoded messages of the conversation's last request, so that
	// only new ones are encoded. If it is nil, all of them are.
	Cache *Cache
}

// Event is a part of a reply: exactly one field is set.
type Event struct {
	Text     string     // a piece of the reply's text
	Thinking string     // a piece of the reasoning
	Args     *ArgsDelta // a piece of a call's arguments
	Done     *Reply     // the whole reply; the last event
}

// ArgsDelta is a piece of the arguments of a call that the model is writing.
type ArgsDelta struct {
	CallID string
	Name   string
	JSON   string
	Block  int // which block of the reply's message the call will be, from 0, as far as is known yet
}

// Reply is a whole reply.
type Reply struct {
	Message conversation.Message
	Stop    Stop
	Usage   conversation.Usage
}

// Stop is why a reply ended.
type Stop string

// Stops.
const (
	StopEnd     Stop = "end"     // it has said all
	StopCalls   Stop = "calls"   // it waits for its tool calls
	StopLength  Stop = "length"  // MaxTokens or the window was reached; a last call may lack the end of its arguments
	StopRefusal Stop = "refusal" // it will not answer
)

// Reason is what kind of failure a provider met.
type Reason string

// Reasons.
const (
	Unauthorized Reason = "model_unauthorized" // the key is wrong
	Unreachable  Reason = "model_unreachable"  // no connection
	NotFound     Reason = "model_not_found"    // the provider has no such model
	RateLimited  Reason = "model_rate_limited" // 429
	Overloaded   Reason = "model_overloaded"   // 5xx, 529
	Cut          Reason = "model_stream_cut"   // the stream ended before the reply did
	TooLong      Reason = "model_context_full" // the conversation does not fit the window
	BadRequest   Reason = "model_bad_request"  // the provider refuses the request itself
	BadReply     Reason = "model_bad_reply"    // what answers is no such provider, or says more than any reply holds
)

// Error is a provider's failure.
type Error struct {
	Reason     Reason
	Status     int           // HTTP status, 0 without one
	Message    string        // the provider's words; holds no key
	RetryAfter time.Duration // what the provider asked for, 0 without
	Err        error
}

func (e *Error) Error() string {
	s := string(e.Reason)
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Message != "" {
		s += ": " + e.Message
	} else if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	switch e.Reason {
	case RateLimited, Overloaded, Cut, Unreachable:
		return true
	}
	return false
}

// ReasonOf returns the reason of err, or "" if err is not a provider's.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// Info is what is known of a model beforehand.
type Info struct {
	ID            string // what --model and the API's model.id name
	Ref           string // the id with what is set of its parameters; "" is the id
	DisplayName   string
	Description   string
	Params        []Param // that a request may set
	Traits        Traits
	ContextWindow int // tokens
	MaxOutput     int // tokens
	Images        bool
	Price         *Price // nil is unknown
}
