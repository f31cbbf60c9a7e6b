// Package machinerpc creates HTTP and Connect clients for the daemons in a
// machine, over streams of the connection to the machine.
//
// Everything that a machine sends is untrusted. The package limits the size, the
// number of parts and the errors of replies, and redacts secrets in them.
package machinerpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/text"
)

// maxReplyHeader is the maximum size of a reply's header, in bytes.
const maxReplyHeader = 64 << 10

// maxErrorText is the maximum length of the text of an error, in bytes.
const maxErrorText = 8 << 10

// maxUnread is how many bytes of one reply a machine may send before
// this end has read them. HTTP/2 would otherwise buffer 4 MiB of each reply,
// and a person can start any number of downloads without reading them.
const maxUnread = 256 << 10

// A Dial opens a stream to a daemon in a machine.
type Dial = func(ctx context.Context) (net.Conn, error)

// NewClient returns an HTTP client for RPCs over streams that dial opens. It
// uses unencrypted HTTP/2 with prior knowledge. It limits the size of headers
// and errors; [Options] limit messages. The caller must call
// CloseIdleConnections.
func NewClient(dial Dial) *http.Client {
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	t := newTransport(dial)
	t.Protocols = &h2c
	t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: maxUnread}
	return &http.Client{Transport: transport{t}}
}

// NewWebSocketClient returns an HTTP/1.1 client for a WebSocket over a stream
// that dial opens. It limits the size of headers.
func NewWebSocketClient(dial Dial) *http.Client {
	t := newTransport(dial)
	t.DisableKeepAlives = true
	return &http.Client{Transport: t}
}

func newTransport(dial Dial) *http.Transport {
	return &http.Transport{
		DisableCompression: true, MaxResponseHeaderBytes: maxReplyHeader,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
}

// transport limits the size of a machine's errors, which Connect decodes as
// JSON: the body of a failed request, and the last message of a stream. It also
// sends each message of a stream in one write with its prefix.
type transport struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	stream := req.Header.Get("Content-Type") == "application/connect+proto"
	if stream && req.Body != nil {
		body := req.Body
		req = req.WithContext(req.Context()) // copy the request before changing it
		req.Body = &messages{body: body}
	}
	res, err := t.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch {
	case stream:
		res.Body = &boundedStream{ReadCloser: res.Body}
	case res.StatusCode != http.StatusOK:
		res.Body = &boundedError{res.Body, maxErrorBody}
	}
	return res, nil
}

// Options returns the options of a Connect client of a machine. Replies are not
// compressed, and have at most max bytes and maxParts parts.
func Options(max int, around ...connect.Interceptor) connect.ClientOption {
	return connect.WithClientOptions(connect.WithReadMaxBytes(max), connect.WithAcceptCompression("gzip", nil, nil),
		connect.WithCodec(sparing{}), connect.WithInterceptors(around...))
}

// lastMoment is how long the connection of a stopping machine may stay open
// after a call's stream has broken.
const lastMoment = 2 * time.Second

// Error converts the error of an RPC. The result is the context's cause if the
// context has ended, and otherwise the machine's message, shortened. done is
// closed when the connection has ended. If the daemon is unavailable, Error
// briefly waits for done, because a stopping machine closes its streams shortly
// before its connection.
func Error(err error, done <-chan struct{}) error {
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	words := text.Head(e.Message(), maxErrorText)
	switch e.Code() {
	case connect.CodeCanceled:
		return fmt.Errorf("%w: %s", context.Canceled, words)
	case connect.CodeDeadlineExceeded:
		return fmt.Errorf("%w: %s", context.DeadlineExceeded, words)
	case connect.CodeUnavailable:
		select {
		case <-done:
		case <-time.After(lastMoment):
		}
	}
	return fmt.Errorf("%s: %s", e.Code(), words)
}

// MaxDuration is the longest duration that is accepted from a machine.
const MaxDuration = 1000 * 24 * time.Hour

// Duration converts a duration that a machine reports in milliseconds. It is 0
// to [MaxDuration].
func Duration(ms int64) time.Duration {
	return time.Duration(min(max(0, ms), MaxDuration.Milliseconds())) * time.Millisecond
}
