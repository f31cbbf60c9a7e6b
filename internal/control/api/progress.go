package api

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
)

// How many requests of a user may be in progress. A request holds its reply, up
// to 8 MiB, until the client has read it, so that without a limit one member
// could take all memory of the server.
const (
	maxShort    = 64  // requests with an ordinary reply; more wait for their turn
	maxLong     = 512 // streams, WebSockets and slow requests
	maxTransfer = 32  // transfers of a machine's files and folders, which are also long
)

// replyRead is how long a client may take to read an ordinary reply.
const replyRead = 5 * time.Minute

// progress counts each user's requests in progress. Its methods are safe for
// concurrent use; its zero value is ready to use.
type progress struct {
	mu sync.Mutex
	of map[int64]*userProgress
}

// userProgress are the requests of one user. It is removed with the last one.
type userProgress struct {
	all, long, transfer int           // in progress or waiting
	short               chan struct{} // has one element for each short request in progress
}

// begin counts a request of the user to the route. It waits while too many short
// ones are in progress. The caller must call done when the request ends.
func (p *progress) begin(ctx context.Context, rt rest.Route, userID int64) (done func(), err error) {
	u, err := p.enter(rt, userID)
	if err != nil {
		return nil, err
	}
	if rt.Long {
		return func() { p.leave(u, rt, userID) }, nil
	}
	select {
	case u.short <- struct{}{}:
		return func() { <-u.short; p.leave(u, rt, userID) }, nil
	case <-ctx.Done():
		p.leave(u, rt, userID)
		return nil, tooMany(maxShort, "requests")
	}
}

// enter counts a request, unless too many are in progress.
func (p *progress) enter(rt rest.Route, userID int64) (*userProgress, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.of[userID]
	if u == nil {
		u = &userProgress{short: make(chan struct{}, maxShort)}
	}
	switch {
	case rt.Long && u.long >= maxLong:
		return nil, tooMany(maxLong, "streams, connections and slow requests")
	case transfers(rt) && u.transfer >= maxTransfer:
		return nil, tooMany(maxTransfer, "transfers of files")
	}
	if p.of == nil {
		p.of = map[int64]*userProgress{}
	}
	p.of[userID] = u
	u.add(rt, 1)
	return u, nil
}

// leave undoes enter.
func (p *progress) leave(u *userProgress, rt rest.Route, userID int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.add(rt, -1); u.all == 0 {
		delete(p.of, userID)
	}
}

// add adds n requests to the route.
func (u *userProgress) add(rt rest.Route, n int) {
	u.all += n
	if rt.Long {
		u.long += n
	}
	if transfers(rt) {
		u.transfer += n
	}
}

// transferring lists the operations that transfer files of a machine.
var transferring = []string{"readFile", "readFolder", "writeFile"}

func transfers(rt rest.Route) bool { return slices.Contains(transferring, rt.ID) }

func tooMany(most int, what string) error {
	return fault.Exhausted("%d %s of yours are in progress", most, what).Named("rate_limit_exceeded").
		Hint("read their replies, or send fewer at a time")
}

// readWithin cuts the connection of a client that does not read the reply in
// time. The caller must call the result at the end of the request.
func readWithin(w http.ResponseWriter, timeout time.Duration) (done func()) {
	rc := http.NewResponseController(w)
	if rc.SetWriteDeadline(time.Now().Add(timeout)) != nil { // only in tests, whose writers have no deadlines
		return func() {}
	}
	return func() { _ = rc.SetWriteDeadline(time.Time{}) } // the connection may be used again
}
