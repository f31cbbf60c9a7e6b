package egress

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits on the names and addresses remembered from a machine's lookups.
const (
	maxAddresses    = 8192
	maxNamesPerAddr = 64
)

// answerTTL is how long the machine may cache an answer; memoryTime is how long
// connections to an address are attributed to a name. The latter is longer,
// because programs keep addresses beyond the TTL.
const (
	answerTTL  = time.Minute
	memoryTime = time.Hour
)

// names remembers which names resolved to which addresses, for one machine.
type names struct {
	mu  sync.Mutex
	all map[netip.Addr]map[string]time.Time // expiry by address and name
}

func newNames() *names { return &names{all: map[netip.Addr]map[string]time.Time{}} }

// learn records that name resolved to addrs.
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

// makeRoom removes expired entries or, if that is not enough, arbitrary ones.
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
		// Remove more than necessary, so that full scans are rare.
		if len(n.all) <= maxAddresses*3/4 {
			return
		}
		delete(n.all, addr)
	}
}

// lookup returns the names that resolved to addr, most recent first.
func (n *names) lookup(addr netip.Addr) []string {
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
