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

// maxGitHeader bounds the header of a request from git, in bytes.
const maxGitHeader = 64 << 10

// maxGitStreams bounds the streams to the gateway that a machine has open.
const maxGitStreams = 64

// serve answers the streams that the machine opens: git's, and no others.
func (c *Conn) serve(git http.Handler) {
	streams := mux.NewListener()
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
		var open atomic.Int64
		_ = c.mux.Serve(func(name string, stream net.Conn) {
			if name != mux.Git || git == nil {
				_ = stream.Close()
				return
			}
			place := &counted{Conn: stream, free: func() { open.Add(-1) }}
			if open.Add(1) > maxGitStreams || !streams.Hand(place) {
				_ = place.Close()
			}
		})
		_ = streams.Close()
	})
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
