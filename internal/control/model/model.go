// Package model defines the interface of a language model, which streams
// replies to conversations. The packages below it implement providers;
// modeltest tests them against this definition, with servers as strict as the
// real ones.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// A Model replies to conversations. It is safe for concurrent use.
type Model interface {
	// Stream requests one reply. The sequence yields the parts of the reply as
	// they arrive and, last, one Event with Done set; or it yields an error and
	// ends. Errors of the provider are of type *[Error]. Stream does not retry.
	// Stopping the iteration or ending ctx aborts the request.
	Stream(ctx context.Context, req Request) iter.Seq2[Event, error]
}

// Request is a request for one reply.
type Request struct {
	System    string
	Messages  []conversation.Message // starts with a user message; every call has its result in the next message
	Tools     []tool.Spec
	MaxTokens int // maximum length of the reply; 0 is the model's default
	// Schema is a JSON schema that the reply's text has to match, or nil. If
	// the provider cannot enforce the schema, the model ignores it, so the
	// system prompt must ask for the same format.
	Schema json.RawMessage
	// Cache holds the encoded messages of the conversation's previous request,
	// so that only new messages are encoded. If it is nil, all messages are
	// encoded.
	Cache *Cache
}

// Event is a part of a reply. Exactly one field is set.
type Event struct {
	Text     string     // a piece of the reply's text
	Thinking string     // a piece of the reasoning
	Args     *ArgsDelta // a piece of a call's arguments
	Done     *Reply     // the complete reply; the last event
}

// ArgsDelta is a piece of the arguments of a call that the model is writing.
type ArgsDelta struct {
	CallID string
	Name   string
	JSON   string
	Block  int // index of the block that the call will become, as far as known yet
}

// Reply is a complete reply.
type Reply struct {
	Message conversation.Message
	Stop    Stop
	Usage   conversation.Usage
}

// Stop is why a reply ended.
type Stop string

// The reasons why a reply ends.
const (
	StopEnd     Stop = "end"     // the reply is finished
	StopCalls   Stop = "calls"   // the model waits for the results of its calls
	StopLength  Stop = "length"  // MaxTokens or the context window was reached; the arguments of the last call may be incomplete
	StopRefusal Stop = "refusal" // the model declines to answer
)

// Reason is the kind of a provider's failure.
type Reason string

// The kinds of failures.
const (
	Unauthorized Reason = "model_unauthorized" // invalid key
	Unreachable  Reason = "model_unreachable"  // no connection
	NotFound     Reason = "model_not_found"    // unknown model
	RateLimited  Reason = "model_rate_limited" // status 429
	Overloaded   Reason = "model_overloaded"   // status 5xx, 529
	Cut          Reason = "model_stream_cut"   // the stream ended before the reply was complete
	TooLong      Reason = "model_context_full" // the conversation does not fit the context window
	BadRequest   Reason = "model_bad_request"  // the provider rejected the request
	BadReply     Reason = "model_bad_reply"    // the response is not a valid or plausible reply
)

// Error is a failure of a provider.
type Error struct {
	Reason     Reason
	Status     int           // HTTP status, or 0
	Message    string        // from the provider; contains no key
	RetryAfter time.Duration // requested by the provider, or 0
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

// Busy reports whether the provider currently has no capacity for the request,
// so that another model may help.
func (e *Error) Busy() bool { return e.Reason == RateLimited || e.Reason == Overloaded }

// ReasonOf returns the reason of err, or "" if err is not an [Error].
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// Info describes a configured model.
type Info struct {
	ID            string // the value of --model and of model.id in the API
	Ref           string // the id with parameters; "" means the id alone
	DisplayName   string
	Description   string
	Params        []Param // parameters that a request may set
	Traits        Traits
	ContextWindow int // tokens
	MaxOutput     int // tokens
	Images        bool
	Price         *Price // nil if unknown
	// Fallback is the [Ref] of the model that replaces this one for the rest of
	// a run after FallbackAfter attempts in a row have failed because the
	// provider was overloaded or limited the rate; "" means none.
	Fallback      string
	FallbackAfter int
}
