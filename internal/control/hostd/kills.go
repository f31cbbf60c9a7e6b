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
	mu   sync.Mutex
	seen map[string]quietMachine

	host func() (int, bool) // for tests; default cgroup.HostKills
	now  func() time.Time   // for tests; default time.Now
}

// quietMachine is what the host-daemon has said of a machine.
type quietMachine struct {
	known int       // it had at most so many kills
	host  int       // kills on the host before it was asked
	since time.Time // when host was first read
	final bool      // this is so for as long as host is
}

// ask calls the host-daemon, which reports whether the machine had more than known kills,
// unless the answer can only be no.
func (q *quiet) ask(id string, known int, call func() (more bool)) bool {
	host, now := cgroup.HostKills, time.Now
	if q.host != nil {
		host, now = q.host, q.now
	}
	kills, counted := host()
	q.mu.Lock()
	last, ok := q.seen[id]
	q.mu.Unlock()
	same := ok && counted && last.host == kills && last.known <= known
	if same && last.final {
		return false
	}
	if call() {
		q.forget(id)
		return true
	}
	next := quietMachine{known: known, host: kills, since: now()}
	if same {
		next.final, next.since = next.since.Sub(last.since) > cgroup.SettleTime, last.since
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.seen == nil {
		q.seen = map[string]quietMachine{}
	}
	q.seen[id] = next
	return false
}

// forget drops what is known of a machine.
func (q *quiet) forget(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.seen, id)
}
