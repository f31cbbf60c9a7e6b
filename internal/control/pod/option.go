package pod

import (
	"net/http"

	"aloft/internal/redact"
)

// Option configures a connection to a machine.
type Option func(*options)

type options struct {
	redactor   *redact.Redactor
	tokens     http.Handler
	spans      http.Handler
	embed      http.Handler
	registries http.Handler
	tell       func(error)
	waits
}

func optionsOf(all []Option) options {
	o := options{waits: standard}
	for _, set := range all {
		set(&o)
	}
	return o
}

// Redact redacts secrets in everything that the machine sends: results, output,
// boot steps, diffs and errors. The machine redacts too, but is not trusted.
func Redact(by *redact.Redactor) Option { return func(o *options) { o.redactor = by } }

// Apply replaces the redactor of an existing connection with the one in the given
// options. The new redactor applies to all data that the machine sends from now
// on. The other options are fixed when the connection is made.
func (c *Conn) Apply(all ...Option) { c.redactor.Store(optionsOf(all).redactor) }

// Redactor returns the current redactor. It is nil if nothing is redacted.
func (c *Conn) Redactor() *redact.Redactor { return c.redactor.Load() }

// Tokens handles requests of programs in the machine to POST /v1/tokens/oidc.
func Tokens(h http.Handler) Option { return func(o *options) { o.tokens = h } }

// Spans receives the spans that exec-daemon records, as OTLP.
func Spans(h http.Handler) Option { return func(o *options) { o.spans = h } }

// Embeddings handles exec-daemon's requests for embeddings.
func Embeddings(h http.Handler) Option { return func(o *options) { o.embed = h } }

// Registries handles the pull requests of the machine's Docker; nil refuses them.
func Registries(h http.Handler) Option { return func(o *options) { o.registries = h } }

// TellExceeded makes the connection call tell once, with the reason, if the
// machine has exceeded a limit and the connection is closed because of that.
func TellExceeded(tell func(reason error)) Option { return func(o *options) { o.tell = tell } }
