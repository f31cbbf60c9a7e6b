package poll_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/control/poll"
)

// TestBackoff checks that the delay grows up to its limit, and that it ends
// early when the context ends.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := poll.New(3 * time.Millisecond)
		for _, want := range []time.Duration{time.Millisecond, 1500 * time.Microsecond, 2250 * time.Microsecond, 3 * time.Millisecond, 3 * time.Millisecond} {
			began := time.Now()
			if err := b.Pause(t.Context()); err != nil || time.Since(began) != want {
				t.Errorf("a pause of %v, %v; want %v", time.Since(began), err, want)
			}
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		began := time.Now()
		if err := b.Pause(ctx); !errors.Is(err, gone) || time.Since(began) != 0 {
			t.Errorf("after the end: a pause of %v, %v", time.Since(began), err)
		}
	})
}
