package api

import (
	"net/http"
	"slices"
	"sync"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/ledger"
	"aloft/internal/fault"
)

// maxPlain bounds the body of a request that carries no images, in bytes.
const maxPlain = 4 << 20

// A user may have a limited number of requests with a body in progress, since the
// server holds bodies in memory and a client may send them slowly.
const (
	maxLarge   = 2        // requests with more than maxPlain bytes
	maxMedium  = 16       // requests with more than mediumBody bytes
	maxBodies  = 256      // other requests with a body
	mediumBody = 64 << 10 // bytes
)

// pictured lists the operations that accept images.
var pictured = []string{"createAgent", "createRun", "queuePrompt", "retryTurn", "forkAgent", "v0CreateAgent", "v0AddFollowup"}

// mostOf returns the size of the largest body that the route accepts, in bytes,
// or 0 if the handler streams the body and limits its size.
func mostOf(rt rest.Route) int64 {
	switch {
	case rt.Takes != "":
		return 0
	case slices.Contains(pictured, rt.ID):
		return rest.MaxBody
	}
	return maxPlain
}

// larges counts each user's requests in progress with a body. Its methods are safe
// for concurrent use; its zero value is ready to use.
type larges struct {
	mu sync.Mutex
	of map[bodies]int
}

// bodies are a user's requests of one class; allowed is how many may be in progress.
type bodies struct {
	userID  int64
	allowed int
}

// classOf returns the class of a request whose body has the given length.
func classOf(length int64, who account.APIKey) bodies {
	switch {
	case length > maxPlain:
		return bodies{who.UserID, maxLarge}
	case length > mediumBody:
		return bodies{who.UserID, maxMedium}
	}
	return bodies{who.UserID, maxBodies}
}

// bound limits the size of the body of a request to the route, and counts it
// in tally. The caller must call done when the request ends.
func (l *larges) bound(w http.ResponseWriter, r *http.Request, rt rest.Route, who account.APIKey, tally *ledger.Tally) (done func(), err error) {
	most := mostOf(rt)
	if most == 0 || r.Method == http.MethodGet {
		return func() {}, nil
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	length := r.ContentLength
	if length < 0 { // not known
		length = most
	}
	if length == 0 || who.UserID == 0 { // no body, or that of somebody who signs in
		return func() {}, nil
	}
	class := classOf(length, who)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[class] >= class.allowed {
		return nil, fault.Exhausted("%d requests of yours with bodies of this size are under way", class.allowed).Named("rate_limit_exceeded").
			Hint("send fewer at once")
	}
	if l.of == nil {
		l.of = map[bodies]int{}
	}
	l.of[class]++
	release := tally.Hold(ledger.Holding{Kind: ledger.Request, UserID: who.UserID}, length)
	return func() {
		release()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.of[class]--; l.of[class] == 0 {
			delete(l.of, class)
		}
	}, nil
}
