package pod

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aloft/internal/redact"
	"aloft/internal/wire/agentv1"
)

// Option configures a connection to a machine.
type Option func(*options)

type options struct {
	secrets *secrets
	trace   string
	tokens  http.Handler
	spans   http.Handler
	tell    func(error)
	waits
}

// secrets holds the current redactor. Its methods are safe for concurrent use.
type secrets struct {
	now atomic.Pointer[redact.Redactor]
}

func (s *secrets) redactor() *redact.Redactor { return s.now.Load() }

func optionsOf(all []Option) options {
	o := options{secrets: new(secrets), waits: standard}
	for _, set := range all {
		set(&o)
	}
	return o
}

// Redact redacts secrets in everything that the machine sends: results, output,
// boot steps, diffs and errors. The machine redacts too, but is not trusted to.
func Redact(by *redact.Redactor) Option { return func(o *options) { o.secrets.now.Store(by) } }

// Apply replaces the redactor of an existing connection by those in all, for
// everything that the machine sends from now on. The other options are fixed
// when the connection is made.
func (c *Conn) Apply(all ...Option) { c.secrets.now.Store(optionsOf(all).secrets.redactor()) }

// Apply is like [Conn.Apply], for calls that start from now on.
func (e *Exec) Apply(all ...Option) { e.secrets.now.Store(optionsOf(all).secrets.redactor()) }

// Trace sets the traceparent below which exec-daemon records its spans.
func Trace(traceparent string) Option { return func(o *options) { o.trace = traceparent } }

// Tokens serves the requests of programs in the machine to POST
// /v1/tokens/oidc.
func Tokens(h http.Handler) Option { return func(o *options) { o.tokens = h } }

// Spans receives the spans that exec-daemon records, as OTLP.
func Spans(h http.Handler) Option { return func(o *options) { o.spans = h } }

// TellExceeded makes the connection call tell once, with the reason, if it is
// closed because the machine exceeded a limit.
func TellExceeded(tell func(reason error)) Option { return func(o *options) { o.tell = tell } }

// heard redacts a machine's replies before anything else sees them. The output
// of a call is redacted by the call, since a secret may span several pieces.
type heard struct{ secrets *secrets }

// WrapUnary implements [connect.Interceptor].
func (h heard) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		if err != nil {
			return nil, h.error(err)
		}
		h.message(res.Any())
		return res, nil
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (h heard) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return heardConn{next(ctx, spec), h}
	}
}

// WrapStreamingHandler implements [connect.Interceptor]. It does nothing,
// because this side serves nothing.
func (heard) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

type heardConn struct {
	connect.StreamingClientConn
	by heard
}

func (c heardConn) Receive(to any) error {
	if err := c.StreamingClientConn.Receive(to); err != nil {
		return c.by.error(err)
	}
	c.by.message(to)
	return nil
}

func (h heard) message(m any) {
	if element, ok := m.(*agentv1.ExecServerElement); ok && element.GetDelta() != nil {
		return
	}
	r := h.secrets.redactor()
	if r.Empty() {
		return
	}
	if screen, ok := m.(*agentv1.ReadTerminalResponse); ok {
		screen.Text = r.Screen(screen.GetText())
	}
	if m, ok := m.(proto.Message); ok {
		redact.Strings(m.ProtoReflect(), r.String)
	}
}

// error returns errors that are not replies of the machine unchanged, because
// callers look for them in the chain.
func (h heard) error(err error) error {
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	clean := h.secrets.redactor().String(e.Message())
	if clean == e.Message() {
		return err
	}
	return connect.NewError(e.Code(), errors.New(clean))
}

// outputs redacts the two output streams of one call.
type outputs struct{ stdout, stderr *redact.Stream }

func newOutputs(secrets *redact.Redactor) outputs {
	return outputs{secrets.Stream(), secrets.Stream()}
}

// next returns the redacted delta, and false if nothing of it is left.
func (o outputs) next(d Delta) (Delta, bool) {
	d.Stdout = string(o.stdout.Next([]byte(d.Stdout)))
	d.Stderr = string(o.stderr.Next([]byte(d.Stderr)))
	return d, d.Stdout != "" || d.Stderr != ""
}

// holds reports whether redaction still delays some output.
func (o outputs) holds() bool { return o.stdout.Holds() || o.stderr.Holds() }

// idle returns delayed output that should be shown because no more comes.
func (o outputs) idle(last uint64) (Delta, bool) {
	d := Delta{Stdout: string(o.stdout.Idle()), Stderr: string(o.stderr.Idle()), Seq: last}
	return d, d.Stdout != "" || d.Stderr != ""
}

// rest returns the delayed output at the end.
func (o outputs) rest(last uint64) (Delta, bool) {
	d := Delta{Stdout: string(o.stdout.Flush()), Stderr: string(o.stderr.Flush()), Seq: last}
	return d, d.Stdout != "" || d.Stderr != ""
}
