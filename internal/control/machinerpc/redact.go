package machinerpc

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"aloft/internal/redact"
	"aloft/internal/wire/agentv1"
)

// Redact returns an interceptor that redacts a machine's replies before
// anything else sees them. For each reply it calls current, which returns the
// redactor or nil. It does not redact the output of tool calls: their callers
// do, since a secret may span several pieces.
func Redact(current func() *redact.Redactor) connect.Interceptor { return redacting{current} }

type redacting struct{ current func() *redact.Redactor }

// WrapUnary implements [connect.Interceptor].
func (r redacting) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		if err != nil {
			return nil, r.error(err)
		}
		r.message(res.Any())
		return res, nil
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (r redacting) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return redactingConn{next(ctx, spec), r}
	}
}

// WrapStreamingHandler implements [connect.Interceptor]. It does nothing,
// because this program is only a client.
func (redacting) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

type redactingConn struct {
	connect.StreamingClientConn
	by redacting
}

func (c redactingConn) Receive(to any) error {
	if err := c.StreamingClientConn.Receive(to); err != nil {
		return c.by.error(err)
	}
	c.by.message(to)
	return nil
}

func (r redacting) message(m any) {
	if element, ok := m.(*agentv1.ExecServerElement); ok && element.GetDelta() != nil {
		return
	}
	by := r.current()
	if by.Empty() {
		return
	}
	if screen, ok := m.(*agentv1.ReadTerminalResponse); ok {
		screen.Text = by.Screen(screen.GetText())
	}
	if m, ok := m.(proto.Message); ok {
		redact.Strings(m.ProtoReflect(), by.String)
	}
}

// error redacts replies of the machine only. It returns other errors unchanged,
// because callers look for them in the chain.
func (r redacting) error(err error) error {
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	clean := r.current().String(e.Message())
	if clean == e.Message() {
		return err
	}
	return connect.NewError(e.Code(), errors.New(clean))
}
