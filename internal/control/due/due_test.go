package due_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/control/due"
)

// A worker releases its items before its first claim, attempts at most AtOnce
// items at a time, and waits for running attempts when it stops.
func TestWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		waiting, running, most, done, released := []int{1, 2, 3, 4, 5, 6, 7}, 0, 0, 0, 0
		var failures []error
		w := due.New(due.Config[int]{
			AtOnce: 3, Every: time.Second,
			Release: func(context.Context) error {
				if released++; released == 1 {
					return errors.New("the database is away")
				}
				return nil
			},
			Claim: func(_ context.Context, limit int) ([]int, error) {
				mu.Lock()
				defer mu.Unlock()
				if released < 2 {
					t.Error("claimed before the release")
				}
				n := min(limit, len(waiting))
				out := waiting[:n]
				waiting = waiting[n:]
				return out, nil
			},
			Attempt: func(context.Context, int) {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(10 * time.Second)
				mu.Lock()
				running--
				done++
				mu.Unlock()
			},
			Failed: func(err error) { failures = append(failures, err) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { w.Run(ctx); close(stopped) }()
		time.Sleep(25 * time.Second)
		cancel()
		<-stopped
		if most != 3 || done != 7 || running != 0 || released != 2 || len(failures) != 1 {
			t.Errorf("most %d, done %d, running %d, released %d, failures %v", most, done, running, released, failures)
		}
	})
}

// If more items are due than a worker can attempt at once, it does not wait for the
// next interval.
func TestWorkerClaimsAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		waiting, done := 100, 0
		w := due.New(due.Config[int]{
			AtOnce: 3, Every: time.Hour, Release: func(context.Context) error { return nil }, Failed: func(err error) { t.Error(err) },
			Claim: func(_ context.Context, limit int) ([]int, error) {
				mu.Lock()
				defer mu.Unlock()
				n := min(limit, waiting)
				waiting -= n
				return make([]int, n), nil
			},
			Attempt: func(context.Context, int) {
				mu.Lock()
				defer mu.Unlock()
				done++
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { w.Run(ctx); close(stopped) }()
		time.Sleep(time.Minute) // of the bubble's clock
		cancel()
		<-stopped
		if done != 100 {
			t.Errorf("%d of 100 attempts in a minute", done)
		}
	})
}

func TestBackoff(t *testing.T) {
	for attempts, want := range map[int]time.Duration{0: 10 * time.Second, 1: 10 * time.Second, 2: 20 * time.Second, 4: 80 * time.Second, 100: time.Hour} {
		if got := due.Backoff(attempts); got < want*9/10 || got > want*11/10 {
			t.Errorf("after %d attempts: %v", attempts, got)
		}
	}
}
