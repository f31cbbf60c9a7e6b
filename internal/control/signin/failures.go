package signin

import (
	"math"
	"net/netip"
	"strings"
	"sync"
	"time"

	"aloft/internal/fault"
)

// After freeTries consecutive failures, the next try is delayed by a second.
// Each further failure doubles the delay, up to longestWait. Failures are
// forgotten after a day without any.
const (
	freeTries   = 5
	longestWait = 15 * time.Minute
	forgotten   = 24 * time.Hour
	maxFailures = 100_000 // number of names that are remembered
)

// subscriber is the length of the IPv6 prefix that a provider assigns to one
// network. Each host in the network can choose from 2^64 addresses.
const subscriber = 64

// failures counts failed sign-ins by account and by network address. It is safe
// for concurrent use.
type failures struct {
	now func() time.Time
	mu  sync.Mutex
	of  map[string]failure
}

type failure struct {
	count int
	last  time.Time
}

func newFailures(now func() time.Time) *failures {
	return &failures{now: now, of: map[string]failure{}}
}

// addressName returns the name for a network address, which cannot be the name of an
// account. All IPv6 addresses of a subscriber have one name.
func addressName(address string) string {
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() && !a.Is4In6() {
		if p, err := a.WithZone("").Prefix(subscriber); err == nil {
			address = p.String()
		}
	}
	return "address " + address
}

// fold normalizes an account's name, ignoring case.
func fold(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// wait returns a fault if one of the accounts or addresses must wait before
// its next try.
func (f *failures) wait(names ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		if left := f.of[fold(name)].until().Sub(f.now()); left > 0 {
			return fault.Exhausted("too many failed attempts").Named("rate_limit_exceeded").
				Hint("try again in %d seconds", int(math.Ceil(left.Seconds())))
		}
	}
	return nil
}

// until returns when the next sign-in attempt is allowed.
func (f failure) until() time.Time {
	if f.count < freeTries {
		return time.Time{}
	}
	wait := longestWait
	if n := f.count - freeTries; n < 20 { // beyond that, the shift would overflow
		wait = min(time.Second<<n, longestWait)
	}
	return f.last.Add(wait)
}

// add counts a failure for all the names.
func (f *failures) add(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if len(f.of) >= maxFailures {
		f.makeRoom(now)
	}
	for _, name := range names {
		one := f.of[fold(name)]
		if now.Sub(one.last) > forgotten {
			one.count = 0
		}
		f.of[fold(name)] = failure{one.count + 1, now}
	}
}

// makeRoom forgets an eighth of the names or more, so that a flood of names
// neither fills the memory nor makes each failure search the map. It forgets
// names whose waits have ended first, then names that need not wait, then any.
// The caller holds f.mu.
func (f *failures) makeRoom(now time.Time) {
	const room = maxFailures / 8
	for _, mayGo := range []func(failure) bool{
		func(one failure) bool { return now.Sub(one.last) > longestWait },
		func(one failure) bool { return one.count < freeTries },
		func(failure) bool { return true },
	} {
		for name, one := range f.of {
			if len(f.of) <= maxFailures-room {
				return
			}
			if mayGo(one) {
				delete(f.of, name)
			}
		}
	}
}

// forget resets the names' failures.
func (f *failures) forget(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		delete(f.of, fold(name))
	}
}
