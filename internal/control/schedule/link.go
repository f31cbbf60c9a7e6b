package schedule

import (
	"context"
	"errors"
	"sync"
	"time"

	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
)

// links holds the connections to machines in use, one per machine, shared by
// its loop and all visitors. A machine sends its git traffic to the newest
// connection, so a second connection would take it away from the first.
type links struct {
	mu   sync.Mutex
	byID map[string]*link
	left map[string]time.Time // when the last user of a machine left
}

// lastUse returns when the machine was last used. If it is in use, that is now.
func (ls *links) lastUse(id string) time.Time {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byID[id] != nil {
		return time.Now()
	}
	return ls.left[id]
}

// alone reserves an unused machine: new users wait until giveBack is called. ok
// is false if the machine is in use.
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

// drop removes one user from a link, and reports whether it was the last. The
// caller holds ls.mu.
func (ls *links) drop(id string, l *link) (last bool) {
	if l.users--; l.users > 0 {
		return false
	}
	delete(ls.byID, id)
	close(l.left)
	return true
}

// leaving returns a channel that is closed when the machine's last user has
// left. It is nil if nobody uses the machine.
func (ls *links) leaving(id string) <-chan struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byID[id]; l != nil {
		return l.left
	}
	return nil
}

// link is the connection to one machine. It is closed when the last user
// leaves.
type link struct {
	users int           // guarded by links.mu
	left  chan struct{} // closed when users is 0

	mu   sync.Mutex // held while the machine is dialed, started or booted
	conn *pod.Conn  // nil until dialed
}

// use returns the link to the machine, and adds a user to it.
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

// letGo undoes use.
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
		_ = l.conn.Close() // the error does not matter
	}
}

// dial returns the connection, and reconnects if it has ended. It starts a
// stopped machine; if that fails, the error is an [unstartedError]. The caller
// holds l.mu.
func (l *link) dial(ctx context.Context, m machine.Machine, git Gateway, options ...pod.Option) (*pod.Conn, error) {
	if l.conn != nil {
		select {
		case <-l.conn.Done():
			_ = l.conn.Close()
			l.conn = nil
		default:
			l.conn.Apply(options...) // there may be new secrets
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

// maxStarts is how often a machine is started for one dial, since it may be
// killed before it answers.
const maxStarts = 4

// unstartedError says why a stopped machine could not be started.
type unstartedError struct{ error }

func (e unstartedError) Unwrap() error { return e.error }
