package pod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"aloft/internal/control/machine"
	"aloft/internal/wire/mux"
)

// ErrNobodyListens is wrapped by DialPort where the machine has no such port.
var ErrNobodyListens = errors.New("nobody listens on that port in the machine")

// portTimeout bounds how long a machine may take to say whether a port is there.
const portTimeout = 10 * time.Second

// DialPort connects to a TCP port of the machine's loopback. The error wraps
// [ErrNobodyListens] if nobody does. The net.Conn has CloseWrite, and ends with
// the connection to the machine at the latest.
func (c *Conn) DialPort(ctx context.Context, port uint16) (net.Conn, error) {
	s, err := c.open(ctx, mux.Port(port))
	if err != nil {
		return nil, err
	}
	conn, err := greetPort(ctx, s, port)
	if err != nil {
		return nil, c.lost(err)
	}
	return conn, nil
}

// DialPort connects to a port as [Conn.DialPort] does, over a connection of its
// own, which ends with it.
func DialPort(ctx context.Context, m machine.Machine, port uint16) (net.Conn, error) {
	raw, err := m.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial machine %s: %w", m.ID(), err)
	}
	own, err := mux.Client(raw)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial machine %s: %w", m.ID(), err), raw.Close())
	}
	s, err := own.Open(ctx, mux.Port(port))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial machine %s: %w", m.ID(), err), own.Close())
	}
	conn, err := greetPort(ctx, s, port)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial machine %s: %w", m.ID(), err), own.Close())
	}
	conn.own = own
	return conn, nil
}

// greetPort waits for the machine's word that the port is there.
func greetPort(ctx context.Context, s net.Conn, port uint16) (*portConn, error) {
	stop := context.AfterFunc(ctx, func() { _ = s.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = s.SetReadDeadline(time.Now().Add(portTimeout))
	var b [1]byte
	_, err := io.ReadFull(s, b[:])
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("port %d: %w", port, ErrNobodyListens)
	case err == nil:
		err = s.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &portConn{Conn: s}, nil
}

// portConn is a stream that behaves as a TCP connection does.
type portConn struct {
	net.Conn
	own  *mux.Conn // to be closed with it; nil where it is another's
	once sync.Once
}

// CloseWrite says that there is no more, and goes on reading: closing a stream
// does no more than that.
func (c *portConn) CloseWrite() error { return c.Conn.Close() }

// Close ends both directions.
func (c *portConn) Close() error {
	var err error
	c.once.Do(func() {
		err = c.Conn.Close()
		_ = c.SetDeadline(time.Unix(1, 0)) // ends a Read
		if c.own != nil {
			err = errors.Join(err, c.own.Close())
		}
	})
	return err
}
