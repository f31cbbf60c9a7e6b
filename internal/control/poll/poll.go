// Package poll paces polling loops, for events that the kernel does not report,
// such as the release of a lock or the removal of a file.
package poll

import (
	"context"
	"time"
)

// A Backoff is a growing delay between attempts. It starts at one millisecond.
// It is not safe for concurrent use.
type Backoff struct{ next, longest time.Duration }

// New returns a Backoff whose delay is at most longest.
func New(longest time.Duration) *Backoff { return &Backoff{time.Millisecond, longest} }

// Pause sleeps for the current delay and increases the next delay. If ctx ends
// first, it returns the cause at once.
func (b *Backoff) Pause(ctx context.Context) error {
	t := time.NewTimer(b.next)
	defer t.Stop()
	b.next = min(b.next*3/2, b.longest)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
