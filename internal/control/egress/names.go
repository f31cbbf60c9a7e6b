package egress

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds on what is remembered of a machine's lookups.
const (
	maxAddresses    = 8192
	maxNamesPerAddr = 64
)

// How long an answer holds, and how long a connection to its address is
// believed to be meant for the name: programs keep addresses for longer than
// they were told.
const (
	answerTTL  = time.Minute
	memoryTime = time.Hour
)

// names remembers which names resolved to an address, for one machine.
type names struct {
	mu  sync.Mutex
	all map[netip.Addr]map[string]time.Time // until when
}

func newNames() *names { return &names{all: map[netip.Addr]map[string]time.Time{}} }

// learn notes that name resolved to addrs.
func (n *names) learn(name string, addrs []netip.Addr) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, addr := range addrs {
		addr = addr.Unmap()
		if n.all[addr] == nil {
			if len(n.all) >= maxAddresses {
				n.makeRoom(now)
			}
			n.all[addr] = map[string]time.Time{}
		}
		known := n.all[addr]
		if _, ok := known[name]; !ok && len(known) >= maxNamesPerAddr {
			oldest, until := "", time.Time{}
			for k, t := range known {
				if oldest == "" || t.Before(until) {
					oldest, until = k, t
				}
			}
			delete(known, oldest)
		}
		known[name] = now.Add(memoryTime)
	}
}

// makeRoom forgets what is old, or else anything.
func (n *names) makeRoom(now time.Time) {
	for addr, known := range n.all {
		for name, until := range known {
			if now.After(until) {
				delete(known, name)
			}
		}
		if len(known) == 0 {
			delete(n.all, addr)
		}
	}
	for addr := range n.all {
		// Well below the most, so that looking through all of them is rare.
		if len(n.all) <= maxAddresses*3/4 {
			return
		}
		delete(n.all, addr)
	}
}

// of returns the names that resolved to addr, the latest first.
func (n *names) of(addr netip.Addr) []string {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.all[addr.Unmap()]
	var out []string
	for name, until := range known {
		if now.Before(until) {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if c := known[b].Compare(known[a]); c != 0 {
			return c
		}
		if a < b {
			return -1
		}
		return 1
	})
	return out
}
