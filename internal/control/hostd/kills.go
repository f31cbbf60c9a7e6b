package hostd

import (
	"sync"
	"time"

	"aloft/internal/control/cgroup"
)

// quiet remembers which machines have had no kills for lack of memory. Until
// the kernel kills another process on the host, the server need not ask the
// host-daemon about them again. This matters because the server asks before and
// after every command of an agent. The zero value is ready to use.
type quiet struct {
	mu     sync.Mutex
	seen   map[string]quietMachine
	onHost int       // kills on the host when they were last read
	since  time.Time // when onHost was first read; zero if it was never read

	host func() (int, bool) // for tests; default cgroup.HostKills
	now  func() time.Time   // for tests; default time.Now
}

// quietMachine is the host-daemon's last answer about a machine.
type quietMachine struct {
	known int // the machine had at most this many kills
	host  int // kills on the host before the query
}

// look reads the number of processes that the kernel has killed on the host. settled
// is false for a short time after the number has changed, since the kernel counts a
// kill for the host before it counts it for the machine. The caller holds q.mu.
func (q *quiet) look() (kills int, settled bool) {
	host, now := cgroup.HostKills, time.Now
	if q.host != nil {
		host, now = q.host, q.now
	}
	kills, counted := host()
	if q.since.IsZero() || kills != q.onHost {
		q.onHost, q.since = kills, now()
	}
	return kills, counted && now().Sub(q.since) > cgroup.SettleTime
}

// watch reads the host's kills for the first time, so that even the first
// answer about a machine can be cached.
func (q *quiet) watch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.look()
}

// ask reports whether the machine has had more than known kills. It makes the
// call to the host-daemon unless the cached answer shows that there were no
// more.
func (q *quiet) ask(id string, known int, call func() (more bool)) bool {
	q.mu.Lock()
	kills, settled := q.look()
	last, ok := q.seen[id]
	q.mu.Unlock()
	if ok && settled && last.host == kills && last.known <= known {
		return false
	}
	more := call()
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case more || !settled:
		delete(q.seen, id)
	case q.seen == nil:
		q.seen = map[string]quietMachine{id: {known, kills}}
	default:
		q.seen[id] = quietMachine{known, kills}
	}
	return more
}

// forget deletes the cached answer about a machine.
func (q *quiet) forget(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.seen, id)
}
