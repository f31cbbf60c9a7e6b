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

// maxAskHeader bounds the header of a request from a machine, in bytes.
const maxAskHeader = 16 << 10

// maxAskStreams bounds the streams of each kind that a machine has open.
const maxAskStreams = 64

// maxAskRequests bounds the requests at once on one HTTP/2 stream of a machine.
const maxAskRequests = 16

// serve answers the streams that the machine opens: those whose name has a
// handler, and no others. tell, if not nil, is called where the machine used up a
// budget of the connection.
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
			// What goes wrong here is a machine's doing: the machine is told,
			// and its words stay out of the log.
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
		// It returns when the connection ends, and Done says so.
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

// queue is the streams of one kind on their way to their server.
type queue struct {
	listener *mux.Listener
	open     atomic.Int64
}

// hand gives a stream to the server, unless the machine has too many.
func (q *queue) hand(stream net.Conn) {
	place := &counted{Conn: stream, free: func() { q.open.Add(-1) }}
	if q.open.Add(1) > maxAskStreams || !q.listener.Hand(place) {
		_ = place.Close()
	}
}

// counted is a stream that gives its place back when it is closed.
type counted struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *counted) Close() error {
	defer c.once.Do(c.free)
	return c.Conn.Close()
}
