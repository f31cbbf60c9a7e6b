package schedule

import (
	"context"
	"errors"
	"sync"
	"time"

	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
)

// links are the connections to machines that are in use, one for each machine,
// shared by its loop and by everyone who has taken it over. A machine sends its
// git to the newest connection, so that a second would take it from the first.
type links struct {
	mu   sync.Mutex
	byID map[string]*link
	left map[string]time.Time // when the last user of a machine let go
}

// lastUse says when somebody was in the machine last, which is now if somebody is.
func (ls *links) lastUse(id string) time.Time {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byID[id] != nil {
		return time.Now()
	}
	return ls.left[id]
}

// alone takes the link to a machine that nobody uses, so that others wait for
// giveBack. ok is false where somebody does.
func (ls *links) alone(id string) (giveBack func(), ok bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byID[id] != nil {
		return nil, false
	}
	if ls.byID == nil {
		ls.byID = map[string]*link{}
	}
	l := &link{users: 1, left: make(chan struct{})}
	l.mu.Lock()
	ls.byID[id] = l
	return func() {
		l.mu.Unlock()
		ls.mu.Lock()
		defer ls.mu.Unlock()
		ls.drop(id, l)
	}, true
}

// drop takes one user from a link, and reports whether it was the last. The
// caller holds ls.mu.
func (ls *links) drop(id string, l *link) (last bool) {
	if l.users--; l.users > 0 {
		return false
	}
	delete(ls.byID, id)
	close(l.left)
	return true
}

// leaving is closed when the last of those who use the machine now has let go; it is
// nil where nobody does.
func (ls *links) leaving(id string) <-chan struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byID[id]; l != nil {
		return l.left
	}
	return nil
}

// link is the connection to one machine. It is closed when the last user lets go.
type link struct {
	users int           // guarded by links.mu
	left  chan struct{} // closed when there are none

	mu   sync.Mutex // held while the machine is dialed, started or booted
	conn *pod.Conn  // nil until dialed
}

// use returns the link to the machine, for one more user.
func (ls *links) use(id string) *link {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byID == nil {
		ls.byID = map[string]*link{}
	}
	l := ls.byID[id]
	if l == nil {
		l = &link{left: make(chan struct{})}
		ls.byID[id] = l
	}
	l.users++
	return l
}

// letGo is the inverse of use.
func (ls *links) letGo(id string, l *link) {
	ls.mu.Lock()
	last := ls.drop(id, l)
	if last {
		if ls.left == nil {
			ls.left = map[string]time.Time{}
		}
		ls.left[id] = time.Now()
	}
	ls.mu.Unlock()
	if !last {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close() // what closing says is of no use
	}
}

// dial returns the connection, made anew where it has ended. A machine that has
// stopped is started again; an error of that is an [unstartedError]. The caller
// holds l.mu.
func (l *link) dial(ctx context.Context, m machine.Machine, git Gateway, options ...pod.Option) (*pod.Conn, error) {
	if l.conn != nil {
		select {
		case <-l.conn.Done():
			_ = l.conn.Close()
			l.conn = nil
		default:
			l.conn.Apply(options...) // there may be other secrets by now
			return l.conn, nil
		}
	}
	conn, err := pod.Dial(ctx, m, git, options...)
	for try := 1; errors.Is(err, machine.ErrStopped) && try <= maxStarts; try++ {
		if err := m.Restart(ctx); err != nil {
			return nil, unstartedError{err}
		}
		conn, err = pod.Dial(ctx, m, git, options...)
	}
	if err != nil {
		return nil, err
	}
	l.conn = conn
	return conn, nil
}

// maxStarts is how often a machine is started to be dialed: one may be killed
// before it answers.
const maxStarts = 4

// unstartedError is why a machine that had stopped was not started.
type unstartedError struct{ error }

func (e unstartedError) Unwrap() error { return e.error }
