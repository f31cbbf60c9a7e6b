// Package due works on stored items that become due, such as pull requests to
// read. A worker claims due items by lease, makes a limited number of attempts
// at once, and releases the items that its server was working on when it died.
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

// Limits of attempts that fail.
const (
	firstWait   = 10 * time.Second
	longestWait = time.Hour
	maxProblem  = 500 // bytes
)

// Never is a wait that does not end.
const Never = 100 * 365 * 24 * time.Hour

// Config describes the items of a worker. All fields but Every and Tend are
// required.
type Config[T any] struct {
	// Claim returns at most limit due items. No other caller gets them until
	// the lease expires.
	Claim func(ctx context.Context, limit int) ([]T, error)
	// Release makes the items due again that this server has claimed. It is called
	// once, before the first claim.
	Release func(ctx context.Context) error
	// Attempt works on an item and records the outcome.
	Attempt func(ctx context.Context, item T)
	// Tend is called after each claim, for other periodic work; it may be nil.
	Tend   func(ctx context.Context) error
	Failed func(err error) // logs an error of Claim, Release or Tend
	AtOnce int             // maximum number of attempts at once
	Every  time.Duration   // how often to look for due items; default a second
}

// Worker works on due items. Its methods are safe for concurrent use.
type Worker[T any] struct {
	config Config[T]
	free   chan struct{} // holds a token for each attempt that may start
	soon   chan struct{} // has an element if an item is due at once
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

// start starts as many attempts as are allowed at once.
func (w *Worker[T]) start(ctx context.Context, attempts *sync.WaitGroup) error {
	slots := len(w.free)
	if slots == 0 {
		return nil
	}
	items, err := w.config.Claim(ctx, slots)
	if err != nil {
		return err
	}
	for _, item := range items {
		<-w.free // never waits: only this goroutine takes tokens, and slots of them are there
		attempts.Go(func() {
			defer func() { w.free <- struct{}{} }()
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

// Retry returns how long to wait after a failed attempt, which is at least as
// long as the forge requires, and a description of the problem. attempts counts
// the failed attempts in a row, including this one.
func Retry(attempts int, err error) (wait time.Duration, problem string) {
	wait = Backoff(attempts)
	if asked, ok := forge.RetryAfter(err); ok {
		wait = max(wait, asked)
	}
	return wait, forge.Cut(fault.Of(err).Message, maxProblem)
}
