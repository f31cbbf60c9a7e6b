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

// maxLarge is how many requests with a larger body a user may have in progress.
// Each such request holds its body in memory.
const maxLarge = 2

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

// larges counts each user's large requests in progress. Its methods are safe
// for concurrent use; its zero value is ready to use.
type larges struct {
	mu sync.Mutex
	of map[int64]int
}

// bound limits the size of the body of a request to the route, and counts a large one
// in tally. The caller must call done when the request ends.
func (l *larges) bound(w http.ResponseWriter, r *http.Request, rt rest.Route, who account.APIKey, tally *ledger.Tally) (done func(), err error) {
	most := mostOf(rt)
	if most == 0 || r.Method == http.MethodGet {
		return func() {}, nil
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	if most <= maxPlain || r.ContentLength >= 0 && r.ContentLength <= maxPlain {
		return func() {}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[who.UserID] >= maxLarge {
		return nil, fault.Exhausted("%d requests of yours with large bodies are under way", maxLarge).Named("rate_limit_exceeded").
			Hint("send them one after the other")
	}
	if l.of == nil {
		l.of = map[int64]int{}
	}
	l.of[who.UserID]++
	release := tally.Hold(ledger.Holding{Kind: ledger.Request, UserID: who.UserID}, most)
	return func() {
		release()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.of[who.UserID]--; l.of[who.UserID] == 0 {
			delete(l.of, who.UserID)
		}
	}, nil
}
