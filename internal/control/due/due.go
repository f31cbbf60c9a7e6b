// Package due works on stored items that become due, such as pull requests to
// read. A worker claims due items by lease and works on a limited number of
// them at once. After a crash of its server, it releases the items that the
// server had claimed.
package due

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// Limits of failed attempts.
const (
	firstWait   = 10 * time.Second
	longestWait = time.Hour
	maxProblem  = 500 // bytes
)

// Never is an infinite wait.
const Never = 100 * 365 * 24 * time.Hour

// Config describes the items of a worker. All fields but Every and Tend are
// required.
type Config[T any] struct {
	// Claim leases at most limit due items and returns them. No other caller
	// gets these items until the lease expires.
	Claim func(ctx context.Context, limit int) ([]T, error)
	// Release makes the items due that this server claimed before it was
	// restarted. It is called once, before the first claim.
	Release func(ctx context.Context) error
	// Attempt works on an item and records the outcome.
	Attempt func(ctx context.Context, item T)
	// Tend is called after each claim, for other periodic work; it may be nil.
	Tend   func(ctx context.Context) error
	Failed func(err error) // logs errors of Claim, Release and Tend
	AtOnce int             // maximum number of concurrent attempts
	Every  time.Duration   // interval of checks for due items; default one second
}

// Worker works on due items. Its methods are safe for concurrent use.
type Worker[T any] struct {
	config Config[T]
	free   chan struct{} // holds a token for each free attempt slot
	soon   chan struct{} // has an element if the worker should check at once
}

// New returns a worker. Run starts the work.
func New[T any](c Config[T]) *Worker[T] {
	c.Every = cmp.Or(c.Every, time.Second)
	w := &Worker[T]{config: c, free: make(chan struct{}, c.AtOnce), soon: make(chan struct{}, 1)}
	for range c.AtOnce {
		w.free <- struct{}{}
	}
	return w
}

// Wake makes the worker check for due items now.
func (w *Worker[T]) Wake() {
	select {
	case w.soon <- struct{}{}:
	default:
	}
}

// Run works on due items until ctx ends, and returns when the last attempt has
// ended.
func (w *Worker[T]) Run(ctx context.Context) {
	var attempts sync.WaitGroup
	defer attempts.Wait()
	released := false
	tick := time.NewTicker(w.config.Every)
	defer tick.Stop()
	for {
		var err error
		if !released {
			err = w.config.Release(ctx)
			released = err == nil
		}
		if err == nil {
			err = w.start(ctx, &attempts)
		}
		if err == nil && w.config.Tend != nil {
			err = w.config.Tend(ctx)
		}
		if err != nil && ctx.Err() == nil {
			w.config.Failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.soon:
		}
	}
}

// start starts attempts until no item is due or no slot is free.
func (w *Worker[T]) start(ctx context.Context, attempts *sync.WaitGroup) error {
	slots := len(w.free)
	if slots == 0 {
		return nil
	}
	items, err := w.config.Claim(ctx, slots)
	if err != nil {
		return err
	}
	more := len(items) == slots // more items may be due than there are slots
	for _, item := range items {
		<-w.free // does not block: only this goroutine takes tokens, and there are enough
		attempts.Go(func() {
			defer func() {
				w.free <- struct{}{}
				if more {
					w.Wake()
				}
			}()
			w.config.Attempt(ctx, item)
		})
	}
	return nil
}

// Backoff returns how long to wait after the given number of failed attempts: ten
// seconds, doubling up to an hour, with 10 % jitter.
func Backoff(attempts int) time.Duration {
	wait := longestWait
	if doubled := attempts - 1; doubled < 9 {
		wait = min(firstWait<<max(doubled, 0), longestWait)
	}
	return wait*9/10 + rand.N(wait/5)
}

// Retry returns how long to wait after a failed attempt, at least as long as
// the forge requires, and a description of the problem. attempts counts the
// consecutive failed attempts, including this one.
func Retry(attempts int, err error) (wait time.Duration, problem string) {
	wait = Backoff(attempts)
	if asked, ok := forge.RetryAfter(err); ok {
		wait = max(wait, asked)
	}
	return wait, forge.Cut(fault.Of(err).Message, maxProblem)
}
