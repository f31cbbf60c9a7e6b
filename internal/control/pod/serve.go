package pod

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"aloft/internal/wire/mux"
)

// maxGitHeader bounds the header of a request from git, in bytes.
const maxGitHeader = 64 << 10

// serve answers the streams that the machine opens: git's, and no others.
func (c *Conn) serve(git http.Handler) {
	streams := &listener{conns: make(chan net.Conn), ended: c.mux.Done(), closed: make(chan struct{})}
	if git != nil {
		c.git = &http.Server{
			Handler:           git,
			MaxHeaderBytes:    maxGitHeader,
			ReadHeaderTimeout: 30 * time.Second,
			IdleTimeout:       5 * time.Minute,
			// What goes wrong here is a machine's doing: the machine is told,
			// and its words stay out of the log.
			ErrorLog: log.New(io.Discard, "", 0),
		}
		c.served.Go(func() {
			if err := c.git.Serve(streams); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				_ = c.mux.Close()
			}
		})
	}
	c.served.Go(func() {
		// It returns when the connection ends, and Done says so.
		_ = c.mux.Serve(func(name string, stream net.Conn) {
			if name != mux.Git || git == nil || !streams.hand(stream) {
				_ = stream.Close()
			}
		})
	})
}

// listener is a net.Listener of streams, until the connection ends.
type listener struct {
	conns  chan net.Conn
	ended  <-chan struct{}
	once   sync.Once
	closed chan struct{}
}

// hand gives a stream to whoever accepts, or reports that nobody does any more.
func (l *listener) hand(stream net.Conn) bool {
	select {
	case l.conns <- stream:
		return true
	case <-l.ended:
	case <-l.closed:
	}
	return false
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
	case <-l.closed:
	}
	return nil, net.ErrClosed
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "machine", Net: "mux"} }
