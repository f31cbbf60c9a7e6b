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

// Option is a wish about a connection to a machine.
type Option func(*options)

type options struct {
	secrets *secrets
	trace   string
	tokens  http.Handler
	spans   http.Handler
	tell    func(error)
	waits
}

// secrets are those that are known now. Their methods are safe for concurrent use.
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

// Redact takes secrets out of whatever the machine says: results, output as it
// comes, steps of the boot, differences, errors. The machine may do the same;
// it is not believed.
func Redact(by *redact.Redactor) Option { return func(o *options) { o.secrets.now.Store(by) } }

// Apply changes what was wished of a connection that is there. Of what the
// machine says from now on the secrets that all names are taken out; the rest
// of a connection's options is settled when it is made.
func (c *Conn) Apply(all ...Option) { c.secrets.now.Store(optionsOf(all).secrets.redactor()) }

// Apply is [Conn.Apply] for calls that are begun from now on.
func (e *Exec) Apply(all ...Option) { e.secrets.now.Store(optionsOf(all).secrets.redactor()) }

// Trace tells exec-daemon which span its own belong below: a traceparent.
func Trace(traceparent string) Option { return func(o *options) { o.trace = traceparent } }

// Tokens answers what programs in the machine ask of POST /v1/tokens/oidc.
func Tokens(h http.Handler) Option { return func(o *options) { o.tokens = h } }

// Spans answers exec-daemon, which sends what it traces as OTLP.
func Spans(h http.Handler) Option { return func(o *options) { o.spans = h } }

// TellExceeded has tell called, once, with the reason when the machine used up a
// budget of the connection, which ends it.
func TellExceeded(tell func(reason error)) Option { return func(o *options) { o.tell = tell } }

// heard takes secrets out of what a machine answers, before anything else sees
// it. Output of a call is left to the call, which knows what came before.
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

// WrapStreamingHandler implements [connect.Interceptor]; nothing is served here.
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

// error leaves alone what is no answer of the machine: callers look for it in
// the chain.
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

// outputs are the two outputs of one call, as they come.
type outputs struct{ stdout, stderr *redact.Stream }

func newOutputs(secrets *redact.Redactor) outputs {
	return outputs{secrets.Stream(), secrets.Stream()}
}

// next returns the delta without secrets, and whether anything is left of it.
func (o outputs) next(d Delta) (Delta, bool) {
	d.Stdout = string(o.stdout.Next([]byte(d.Stdout)))
	d.Stderr = string(o.stderr.Next([]byte(d.Stderr)))
	return d, d.Stdout != "" || d.Stderr != ""
}

// holds reports whether anything is held back.
func (o outputs) holds() bool { return o.stdout.Holds() || o.stderr.Holds() }

// idle returns what nobody should wait for when nothing comes.
func (o outputs) idle(last uint64) (Delta, bool) {
	d := Delta{Stdout: string(o.stdout.Idle()), Stderr: string(o.stderr.Idle()), Seq: last}
	return d, d.Stdout != "" || d.Stderr != ""
}

// rest returns what was held back at the end.
func (o outputs) rest(last uint64) (Delta, bool) {
	d := Delta{Stdout: string(o.stdout.Flush()), Stderr: string(o.stderr.Flush()), Seq: last}
	return d, d.Stdout != "" || d.Stderr != ""
}
