package pod

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"aloft/internal/wire/mux"
)

// maxAskHeader is the maximum size of a request header from a machine, in
// bytes.
const maxAskHeader = 16 << 10

// maxAskStreams is how many streams of each kind a machine may have open.
const maxAskStreams = 64

// maxAskRequests is how many concurrent requests a machine may send on one
// HTTP/2 stream.
const maxAskRequests = 16

// serve serves the streams that the machine opens, if their name has a handler.
// tell, if not nil, is called when the machine exceeds a limit of the
// connection.
func (c *Conn) serve(handlers map[string]http.Handler, tell func(error)) {
	c.asked = map[string]*http.Server{}
	queues := map[string]*queue{}
	for name, h := range handlers {
		if h == nil {
			continue
		}
		var protocols http.Protocols
		protocols.SetHTTP1(true)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{
			Handler:           h,
			Protocols:         &protocols,
			HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxAskRequests},
			MaxHeaderBytes:    maxAskHeader,
			ReadHeaderTimeout: 30 * time.Second,
			IdleTimeout:       5 * time.Minute,
			// Discard the log: the machine causes these errors, it gets them as
			// replies, and its texts must not reach the server's log.
			ErrorLog: log.New(io.Discard, "", 0),
		}
		q := &queue{listener: mux.NewListener()}
		c.asked[name], queues[name] = server, q
		c.served.Go(func() {
			if err := server.Serve(q.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				_ = c.mux.Close()
			}
		})
	}
	c.served.Go(func() {
		// ignore the error: Serve returns when the connection ends, which Done
		// reports
		err := c.mux.Serve(func(name string, stream net.Conn) {
			if q := queues[name]; q != nil {
				q.hand(stream)
				return
			}
			_ = stream.Close()
		})
		if errors.Is(err, ErrExceeded) && tell != nil {
			tell(err)
		}
		for _, q := range queues {
			_ = q.listener.Close()
		}
	})
}

// queue passes streams of one kind to the HTTP server for that kind.
type queue struct {
	listener *mux.Listener
	open     atomic.Int64
}

// hand passes a stream to the server, unless the machine has too many open
// streams of that kind.
func (q *queue) hand(stream net.Conn) {
	place := &counted{Conn: stream, free: func() { q.open.Add(-1) }}
	if q.open.Add(1) > maxAskStreams || !q.listener.Hand(place) {
		_ = place.Close()
	}
}

// counted is a stream that decrements the number of open streams when it is
// closed.
type counted struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *counted) Close() error {
	defer c.once.Do(c.free)
	return c.Conn.Close()
}
