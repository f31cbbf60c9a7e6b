package pod

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"aloft/internal/wire/mux"
)

// Open opens a named stream (package mux). Unlike a bare stream, the result
// behaves like a TCP connection: it has CloseWrite, and Close ends a pending
// Read.
func (c *Conn) Open(ctx context.Context, name string) (net.Conn, error) {
	s, err := c.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &stream{Conn: s}, nil
}

// OpenSSH opens a stream to the machine's ssh server. If there is none, the
// stream returns EOF at once.
func (c *Conn) OpenSSH(ctx context.Context) (net.Conn, error) { return c.Open(ctx, mux.SSH) }

type stream struct {
	net.Conn
	once sync.Once
}

// CloseWrite ends writing. Close of a multiplexed stream does exactly that.
func (s *stream) CloseWrite() error { return s.Conn.Close() }

// Close closes both directions.
func (s *stream) Close() error {
	var err error
	s.once.Do(func() { err = errors.Join(s.Conn.Close(), s.SetDeadline(time.Unix(1, 0))) })
	return err
}
