package pod

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"aloft/internal/wire/mux"
)

// Open opens a stream by its name (package mux). Unlike a bare stream it
// behaves as a TCP connection does: it has CloseWrite, and Close ends a Read.
func (c *Conn) Open(ctx context.Context, name string) (net.Conn, error) {
	s, err := c.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &stream{Conn: s}, nil
}

// OpenSSH opens a stream to the machine's ssh server. One that reads EOF at
// once found none.
func (c *Conn) OpenSSH(ctx context.Context) (net.Conn, error) { return c.Open(ctx, mux.SSH) }

type stream struct {
	net.Conn
	once sync.Once
}

// CloseWrite says that there is no more, and goes on reading: closing a
// multiplexed stream does no more than that.
func (s *stream) CloseWrite() error { return s.Conn.Close() }

// Close ends both directions.
func (s *stream) Close() error {
	var err error
	s.once.Do(func() { err = errors.Join(s.Conn.Close(), s.SetDeadline(time.Unix(1, 0))) })
	return err
}
