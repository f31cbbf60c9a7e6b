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

// ErrNobodyListens is wrapped by errors of DialPort if nothing listens on the
// port.
var ErrNobodyListens = errors.New("nothing is listening on that port in the machine")

// portTimeout is the timeout for a machine's reply on whether a port is open.
const portTimeout = 10 * time.Second

// DialPort connects to a loopback TCP port of the machine. The error wraps
// [ErrNobodyListens] if nothing listens there. The returned net.Conn has
// CloseWrite. It ends at the latest with the connection to the machine.
func (c *Conn) DialPort(ctx context.Context, port uint16) (net.Conn, error) {
	s, err := c.open(ctx, mux.Port(port))
	if err != nil {
		return nil, err
	}
	conn, err := greetPort(ctx, s, port)
	if err != nil {
		return nil, c.Lost(err)
	}
	return conn, nil
}

// DialPort connects to a port like [Conn.DialPort], but over a separate
// connection to the machine. Closing the result closes that connection.
func DialPort(ctx context.Context, m machine.Machine, port uint16) (net.Conn, error) {
	raw, err := m.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial machine %s: %w", m.ID(), err)
	}
	own, err := mux.Dedicated(raw)
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

// greetPort waits until the machine confirms that the port is open.
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

// portConn is a stream that behaves like a TCP connection.
type portConn struct {
	net.Conn
	own  *mux.Conn // connection that Close closes too; nil if it is shared
	once sync.Once
}

// CloseWrite ends writing. Close of a multiplexed stream does exactly that.
func (c *portConn) CloseWrite() error { return c.Conn.Close() }

// Close closes both directions.
func (c *portConn) Close() error {
	var err error
	c.once.Do(func() {
		err = c.Conn.Close()
		_ = c.SetDeadline(time.Unix(1, 0)) // ends a pending Read
		if c.own != nil {
			err = errors.Join(err, c.own.Close())
		}
	})
	return err
}
