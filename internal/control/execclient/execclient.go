// Package execclient is the control plane's client of exec-daemon, the process
// in a machine that runs tool calls. It speaks agent.v1 over streams of the
// connection to the machine.
//
// Everything that a machine sends is untrusted. The package bounds its size and
// makes it valid UTF-8; callers must treat it as data.
package execclient

import (
	"context"
	"net"
	"net/http"

	"connectrpc.com/connect"

	"aloft/internal/control/machinerpc"
	"aloft/internal/redact"
)

// Limits on texts from a machine, in bytes.
const (
	maxWord   = 256
	maxDetail = 8 << 10
)

// Conn is the connection to a machine. A [pod.Conn] implements it.
type Conn interface {
	// OpenExec opens a stream to exec-daemon.
	OpenExec(ctx context.Context) (net.Conn, error)
	// OpenPTY opens a stream to the machine's terminals.
	OpenPTY(ctx context.Context) (net.Conn, error)
	// Done returns a channel that is closed when the connection has ended.
	Done() <-chan struct{}
	// Lost wraps err with [pod.ErrLost] if the connection has ended.
	Lost(err error) error
	// Redactor returns the current redactor, which may be nil.
	Redactor() *redact.Redactor
}

// client is a client for a service of exec-daemon.
type client[S any] struct {
	conn    Conn
	http    *http.Client
	service S
}

// newClient returns a client that redacts replies and limits them to max bytes.
// make is the generated constructor of the service's client.
func newClient[S any](conn Conn, token string, max int, make func(connect.HTTPClient, string, ...connect.ClientOption) S) client[S] {
	return newPlainClient(conn, max, make, withToken(token), machinerpc.Redact(conn.Redactor))
}

// newPlainClient is like newClient, but with the given interceptors.
func newPlainClient[S any](conn Conn, max int, make func(connect.HTTPClient, string, ...connect.ClientOption) S, around ...connect.Interceptor) client[S] {
	through := machinerpc.NewClient(conn.OpenExec)
	return client[S]{conn, through, make(through, "http://exec", machinerpc.Options(max, around...))}
}

// Close closes the stream to exec-daemon.
func (c client[S]) Close() { c.http.CloseIdleConnections() }

// error converts the error of an RPC. The result is the cause of the ended
// context, the loss of the connection, or the machine's message, shortened.
func (c client[S]) error(err error) error { return c.conn.Lost(machinerpc.Error(err, c.conn.Done())) }

// withToken is an interceptor that sends exec-daemon's token with every request.
type withToken string

// WrapUnary implements [connect.Interceptor].
func (t withToken) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		req.Header().Set("Authorization", "Bearer "+string(t))
		return next(ctx, req)
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (t withToken) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		conn.RequestHeader().Set("Authorization", "Bearer "+string(t))
		return conn
	}
}

// WrapStreamingHandler implements [connect.Interceptor]. It does nothing,
// because this program is only a client.
func (withToken) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
