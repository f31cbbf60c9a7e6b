package mux

import (
	"net"
	"sync"
)

// A Listener is a net.Listener for streams passed to Hand, so that a net/http
// server can serve them.
type Listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// NewListener returns a Listener. The caller must close it.
func NewListener() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Hand passes a stream to Accept, and waits until it is accepted. It returns
// false if the listener is closed; the caller then still owns the stream.
func (l *Listener) Hand(stream net.Conn) bool {
	select {
	case l.conns <- stream:
		return true
	case <-l.closed:
		return false
	}
}

// Accept waits for a stream; its error is net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and Hand return. It may be called more than once.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns a placeholder: streams have no address.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "mux", Net: "unix"} }
