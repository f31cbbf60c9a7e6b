package build

import (
	"sync"
	"time"
)

// young reports whether something is not yet as old as that, by the clock on the
// wall, which people and programs set. What seems to come from the future by more
// than that is as good as old: else a clock that was wrong once would have it
// last for as long as it was wrong.
func young(at time.Time, age time.Duration) bool {
	return time.Since(at).Abs() < age
}

// grace is for how long something has to be found too old, by the time that this
// process runs, before it is removed for that. A clock that jumps, and is set
// right within that, has cost nothing.
const grace = 12 * time.Hour

// expired remembers since when things are found too old. It is safe for
// concurrent use.
type expired struct {
	mu    sync.Mutex
	since map[string]time.Time // with the time that a process runs
	now   func() time.Time     // for tests; nil is time.Now
}

// due reports whether something has been too old for the grace.
func (e *expired) due(id string, old bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !old {
		delete(e.since, id)
		return false
	}
	now := time.Now
	if e.now != nil {
		now = e.now
	}
	since, ok := e.since[id]
	if !ok {
		if e.since == nil {
			e.since = map[string]time.Time{}
		}
		e.since[id] = now()
		return false
	}
	return now().Sub(since) >= grace
}

// forget lets go of what is removed.
func (e *expired) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.since, id)
}
