// Package mux multiplexes the connection between the control plane and a
// machine: many streams over one net.Conn. Each stream has a name that
// identifies its purpose. The control plane is the client of the connection and
// pod-daemon the server, but both may open streams.
//
// yamux carries the streams. This package adds their names, limits on a hostile peer,
// and counts of bytes.
package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/yamux"
)

// Stream names, and the programs that serve them.
const (
	Pod  = "pod"  // pod.v1 over HTTP/2; served by pod-daemon
	Exec = "exec" // agent.v1 over HTTP/2; pod-daemon forwards it to exec-daemon
	Git  = "git"  // git's smart HTTP; served by the control plane's git gateway
)

// port is the prefix of the names of streams to a TCP port in the machine,
// served by pod-daemon. pod-daemon writes one zero byte once it has connected
// to the port; if it cannot connect, it closes the stream.
const port = "port "

// Port returns the name of a stream to a port on the machine's loopback.
func Port(n uint16) string { return port + strconv.Itoa(int(n)) }

// PortOf returns the port in a stream's name, if Port returned the name.
func PortOf(name string) (n uint16, ok bool) {
	digits, ok := strings.CutPrefix(name, port)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseUint(digits, 10, 16)
	return uint16(v), err == nil && v != 0 && Port(uint16(v)) == name
}

// maxName limits the length of a name, so that a malicious peer cannot send an
// endless one.
const maxName = 64

// headerTimeout is the timeout for a stream's name.
const headerTimeout = 10 * time.Second

// Conn is one end of a connection. Its methods are safe for concurrent use.
type Conn struct {
	session *yamux.Session
	meter   *meter
}

// Client returns the control plane's end of a connection over conn.
func Client(conn net.Conn) (*Conn, error) {
	m := newMeter(conn, 1)
	s, err := yamux.Client(m, config())
	if err != nil {
		return nil, fmt.Errorf("mux: %w", err)
	}
	return &Conn{s, m}, nil
}

// Dedicated returns the control plane's end of a connection over conn for one
// stream, such as a port. The peer may not open streams. The peer can make this
// end hold 256 KiB of unread data, instead of the 64 MiB of [Client].
func Dedicated(conn net.Conn) (*Conn, error) {
	m := newMeter(conn, 1)
	m.passive = true
	c := config()
	c.MaxStreamWindowSize = 256 << 10 // the smallest that yamux accepts
	s, err := yamux.Client(m, c)
	if err != nil {
		return nil, fmt.Errorf("mux: %w", err)
	}
	return &Conn{s, m}, nil
}

// Server returns pod-daemon's end of a connection over conn.
func Server(conn net.Conn) (*Conn, error) {
	m := newMeter(conn, 0)
	s, err := yamux.Server(m, config())
	if err != nil {
		return nil, fmt.Errorf("mux: %w", err)
	}
	return &Conn{s, m}, nil
}

func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.LogOutput = io.Discard
	c.MaxStreamWindowSize = 1 << 20
	// A peer that has disappeared or hangs is detected within the sum of these
	// two times. A machine that is only short of CPU time answers sooner.
	c.KeepAliveInterval = 3 * time.Second
	c.ConnectionWriteTimeout = 6 * time.Second
	return c
}

// Open opens a stream for the named purpose.
func (c *Conn) Open(ctx context.Context, name string) (net.Conn, error) {
	if len(name) == 0 || len(name) > maxName {
		return nil, fmt.Errorf("mux: stream name %q", name)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	opened, err := c.session.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("mux: open %s: %w", name, c.because(err))
	}
	s := c.meter.count(opened)
	header := append([]byte{byte(len(name))}, name...)
	if _, err := s.Write(header); err != nil {
		return nil, errors.Join(fmt.Errorf("mux: open %s: %w", name, c.because(err)), s.Close())
	}
	return s, nil
}

// Serve calls handle for each stream that the peer opens, in a new goroutine,
// until the connection ends. handle owns the stream. The error wraps
// [ErrExceeded] if the peer exceeded a limit.
func (c *Conn) Serve(handle func(name string, stream net.Conn)) error {
	for {
		accepted, err := c.session.AcceptStream()
		if err != nil {
			return fmt.Errorf("mux: %w", c.because(err))
		}
		s := c.meter.count(accepted)
		go func() {
			name, err := readName(s)
			if err != nil {
				_ = s.Close()
				return
			}
			handle(name, s)
		}()
	}
}

func readName(s net.Conn) (string, error) {
	if err := s.SetReadDeadline(time.Now().Add(headerTimeout)); err != nil {
		return "", err
	}
	var n [1]byte
	if _, err := io.ReadFull(s, n[:]); err != nil {
		return "", err
	}
	if n[0] == 0 || n[0] > maxName {
		return "", fmt.Errorf("mux: stream name of %d bytes", n[0])
	}
	name := make([]byte, n[0])
	if _, err := io.ReadFull(s, name); err != nil {
		return "", err
	}
	return string(name), s.SetReadDeadline(time.Time{})
}

// because returns the error for the limit that the peer exceeded, or err if it
// exceeded none.
func (c *Conn) because(err error) error {
	if over := c.meter.excess(); over != nil {
		return over
	}
	return err
}

// Exceeded returns an error that wraps [ErrExceeded] if the connection was
// closed because the peer exceeded a limit, and nil otherwise.
func (c *Conn) Exceeded() error { return c.meter.excess() }

// Done returns a channel that is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.session.CloseChan() }

// Close closes the connection and all its streams.
func (c *Conn) Close() error { return c.session.Close() }
