package fleet

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/fault"
)

// Connections holds the connections to machines in use, one per machine, shared
// by its loop and all visitors. A machine sends its git traffic to the newest
// connection, so a second connection would divert it from the first. The zero
// value is ready to use. Its methods are safe for concurrent use.
type Connections struct {
	mu   sync.Mutex
	byID map[string]*Connection
	left map[string]time.Time // when the last user of a machine left
}

// LastUse returns when the machine was last used. If the machine is in use, it
// returns the current time.
func (cs *Connections) LastUse(id string) time.Time {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.byID[id] != nil {
		return time.Now()
	}
	return cs.left[id]
}

// Alone reserves an unused machine: new users wait until giveBack is called. ok
// is false if the machine is in use.
func (cs *Connections) Alone(id string) (giveBack func(), ok bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.byID[id] != nil {
		return nil, false
	}
	if cs.byID == nil {
		cs.byID = map[string]*Connection{}
	}
	l := &Connection{users: 1, left: make(chan struct{})}
	l.mu.Lock()
	cs.byID[id] = l
	return func() {
		l.mu.Unlock()
		cs.mu.Lock()
		defer cs.mu.Unlock()
		cs.drop(id, l)
	}, true
}

// drop removes one user from a connection, and reports whether it was the last. The
// caller holds cs.mu.
func (cs *Connections) drop(id string, l *Connection) (last bool) {
	if l.users--; l.users > 0 {
		return false
	}
	delete(cs.byID, id)
	close(l.left)
	return true
}

// Leaving returns a channel that is closed when the last user closes the
// connection. It is nil if nobody uses the machine.
func (cs *Connections) Leaving(id string) <-chan struct{} {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if l := cs.byID[id]; l != nil {
		return l.left
	}
	return nil
}

// A Connection is the connection to one machine. It is closed when the last
// user leaves. It is a [sync.Locker]: its lock is held while the machine is
// dialed, started or booted, and its other methods require it.
type Connection struct {
	users int           // guarded by Connections.mu
	left  chan struct{} // closed when users is 0

	mu   sync.Mutex
	conn *pod.Conn // nil until dialed
}

var _ sync.Locker = (*Connection)(nil)

// Lock takes the right to dial, start or boot the machine.
func (c *Connection) Lock() { c.mu.Lock() }

// Unlock undoes Lock.
func (c *Connection) Unlock() { c.mu.Unlock() }

// Close closes the connection, if it is open. Dial opens a new one.
func (c *Connection) Close() {
	if c.conn != nil {
		_ = c.conn.Close() // the error does not matter
		c.conn = nil
	}
}

// Use returns the connection to the machine, and adds a user to it.
func (cs *Connections) Use(id string) *Connection {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.use(id)
}

// maxVisits is how many users a machine may have at a time. A hostile machine
// makes the server hold memory for each of them.
const maxVisits = 512

// Visit is like Use, but fails if the machine has maxVisits users. The error is
// a fault.
func (cs *Connections) Visit(id string) (*Connection, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if l := cs.byID[id]; l != nil && l.users >= maxVisits {
		return nil, fault.Exhausted("the machine has %d connections", maxVisits).Named("rate_limit_exceeded").Hint("end some of them first")
	}
	return cs.use(id), nil
}

// use is Use. The caller holds cs.mu.
func (cs *Connections) use(id string) *Connection {
	if cs.byID == nil {
		cs.byID = map[string]*Connection{}
	}
	l := cs.byID[id]
	if l == nil {
		l = &Connection{left: make(chan struct{})}
		cs.byID[id] = l
	}
	l.users++
	return l
}

// Leave undoes Use. It closes the connection after the last user.
func (cs *Connections) Leave(id string, l *Connection) {
	cs.mu.Lock()
	last := cs.drop(id, l)
	if last {
		if cs.left == nil {
			cs.left = map[string]time.Time{}
		}
		cs.left[id] = time.Now()
	}
	cs.mu.Unlock()
	if !last {
		return
	}
	l.Lock()
	defer l.Unlock()
	l.Close()
}

// Dial returns the connection, and reconnects if it has ended. It starts a
// stopped machine; if that fails, the error is an [UnstartedError].
func (c *Connection) Dial(ctx context.Context, m machine.Machine, git http.Handler, options ...pod.Option) (*pod.Conn, error) {
	if c.conn != nil {
		select {
		case <-c.conn.Done():
			_ = c.conn.Close()
			c.conn = nil
		default:
			c.conn.Apply(options...) // options may contain new secrets
			return c.conn, nil
		}
	}
	conn, err := pod.Dial(ctx, m, git, options...)
	for try := 1; errors.Is(err, machine.ErrStopped) && try <= maxStarts; try++ {
		if err := m.Restart(ctx); err != nil {
			return nil, UnstartedError{err}
		}
		conn, err = pod.Dial(ctx, m, git, options...)
	}
	if err != nil {
		return nil, err
	}
	c.conn = conn
	return conn, nil
}

// DialRunning is like Dial, but does not start a stopped machine. It applies
// renew to an existing connection, and options to a new one.
func (c *Connection) DialRunning(ctx context.Context, m machine.Machine, git http.Handler, renew pod.Option, options ...pod.Option) (*pod.Conn, error) {
	if c.conn != nil {
		c.conn.Apply(renew)
		return c.conn, nil
	}
	conn, err := pod.Dial(ctx, m, git, options...)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	return conn, nil
}

// maxStarts is how often a machine is started for one dial, since it may be
// killed before it answers.
const maxStarts = 4

// UnstartedError is the error for a stopped machine that could not be started.
type UnstartedError struct{ Cause error }

// Error returns the text of the cause.
func (e UnstartedError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e UnstartedError) Unwrap() error { return e.Cause }
