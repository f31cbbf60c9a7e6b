package hostd

import (
	"sync"
	"time"

	"aloft/internal/control/cgroup"
)

// quiet remembers which machines had no kill for lack of memory, so that the host-daemon
// is asked again only after the kernel has killed a process somewhere on the host. It is
// used before and after every command of an agent. The zero value is ready to use.
type quiet struct {
	mu     sync.Mutex
	seen   map[string]quietMachine
	onHost int       // kills on the host when they were last read
	since  time.Time // when onHost was first read; zero if it was never read

	host func() (int, bool) // for tests; default cgroup.HostKills
	now  func() time.Time   // for tests; default time.Now
}

// quietMachine is what the host-daemon has said of a machine.
type quietMachine struct {
	known int // it had at most so many kills
	host  int // kills on the host before it was asked
}

// look reads the kills on the host. settled is false for a while after the number has
// changed, since the kernel counts a kill for the host before it counts it for the
// machine. The caller holds q.mu.
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

// watch begins to look at the host, so that machines can be quiet from the first look at
// them on.
func (q *quiet) watch() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.look()
}

// ask calls the host-daemon, which reports whether the machine had more than known kills,
// unless the answer can only be no.
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

// forget drops what is known of a machine.
func (q *quiet) forget(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.seen, id)
}
