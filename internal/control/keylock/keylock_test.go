package keylock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Locks[string]
		lock := func(ctx context.Context, key string) func() {
			unlock, err := l.Lock(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			return unlock
		}
		unlock := lock(t.Context(), "a")
		lock(t.Context(), "b")() // another key is free
		var order []int
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() {
				unlock, err := l.Lock(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, n)
				synctest.Wait()
				unlock()
			})
			synctest.Wait()
		}
		why := errors.New("it was stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := make(chan error, 1)
		go func() {
			_, err := l.Lock(ctx, "a")
			stopped <- err
		}()
		synctest.Wait()
		cancel(why)
		if err := <-stopped; !errors.Is(err, why) {
			t.Errorf("stopped while it waited: %v", err)
		}
		if len(order) != 0 {
			t.Errorf("%v got the lock while it was held", order)
		}
		unlock()
		all.Wait()
		if len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
			t.Errorf("the order is %v", order)
		}
		lock(ctx, "a")() // a free lock needs no waiting
		if len(l.used) != 0 {
			t.Errorf("unused keys are kept: %v", l.used)
		}
	})
}
