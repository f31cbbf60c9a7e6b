package build

import (
	"sync"
	"time"
)

// isYoung reports whether less than age has passed since the time at, by the
// wall clock. It returns false for a time more than age in the future.
// Otherwise things would be kept for too long if the clock was once ahead.
func isYoung(at time.Time, age time.Duration) bool {
	return time.Since(at).Abs() < age
}

// grace is how long a thing must remain too old before it is removed. The
// process's monotonic clock measures this time, so nothing is lost if the wall
// clock jumps ahead and is corrected within it.
const grace = 12 * time.Hour

// expired records since when each thing has been too old. It is safe for
// concurrent use.
type expired struct {
	mu    sync.Mutex
	since map[string]time.Time // by id; uses the process's monotonic clock
	now   func() time.Time     // nil means time.Now; replaced in tests
}

// due reports whether id has been too old for at least grace.
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

// forget drops the entry of a removed build or layer.
func (e *expired) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.since, id)
}
