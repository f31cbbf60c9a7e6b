package execclient

import (
	"time"

	"aloft/internal/redact"
)

// Option configures [NewCalls].
type Option func(*options)

type options struct {
	redactor *redact.Redactor
	trace    string
	timeout  time.Duration // timeout for the result of a call
}

func optionsOf(all []Option) options {
	o := options{timeout: callTimeout}
	for _, set := range all {
		set(&o)
	}
	return o
}

// Redact redacts secrets in everything that the machine sends: results, output
// and errors. The machine redacts too, but is not trusted.
func Redact(by *redact.Redactor) Option { return func(o *options) { o.redactor = by } }

// Trace sets the traceparent that becomes the parent of exec-daemon's spans.
func Trace(traceparent string) Option { return func(o *options) { o.trace = traceparent } }
