package api

import (
	"net/netip"
	"sync"
)

// Limits of events that are received at once. Their senders are not authenticated
// until the whole body is in memory. Each address may use only a part of the total,
// so that slow requests from one address do not block the events of others.
const (
	maxReceiving     = 64
	maxReceivingFrom = 16
)

// subscriber is the length of the IPv6 prefix that counts as one address, since
// providers assign a prefix of this length to each customer.
const subscriber = 64

// receiving counts the events that are being received. Its methods are safe for
// concurrent use; its zero value is ready to use.
type receiving struct {
	mu   sync.Mutex
	all  int
	from map[string]int // by network address
}

// begin reports whether another event of the address may be received. If it
// returns true, the caller must call end when the body is read.
func (c *receiving) begin(address string) bool {
	name := network(address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxReceiving || c.from[name] >= maxReceivingFrom {
		return false
	}
	if c.from == nil {
		c.from = map[string]int{}
	}
	c.all++
	c.from[name]++
	return true
}

// end releases what begin has counted for the address.
func (c *receiving) end(address string) {
	name := network(address)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.from[name]--; c.from[name] == 0 {
		delete(c.from, name)
	}
}

// network returns the name under which an address is counted.
func network(address string) string {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() && !a.Is4In6() {
		if p, err := a.WithZone("").Prefix(subscriber); err == nil {
			return p.String()
		}
	}
	return address
}
