package forge_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/control/forge"
)

// TestOpenerTakesTurns checks that only one pull request is opened at a time.
// The host would open two for concurrent requests.
func TestOpenerTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o forge.Opener
		var there []forge.PullRequest // open needs no lock, since only one call runs at a time
		open := func(head string, gone context.Context) (forge.PullRequest, error) {
			return o.Open(gone, forge.NewPullRequest{Repo: forge.Repo{Host: "h", Path: "a/b"}, Head: head, Base: "main", Title: "x"},
				func() ([]forge.PullRequest, error) { return there, nil },
				func() (forge.PullRequest, error) {
					time.Sleep(time.Minute)
					p := forge.PullRequest{Number: len(there) + 1, Base: "main", State: forge.Open}
					there = append(there, p)
					return p, nil
				})
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if p, err := open("b", t.Context()); err != nil || p.Number != 1 {
					t.Errorf("opened %+v, %v", p, err)
				}
			})
		}
		why := errors.New("it was stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		synctest.Wait()
		all.Go(func() {
			if _, err := open("b", ctx); !errors.Is(err, why) {
				t.Errorf("stopped while it waited: %v", err)
			}
		})
		synctest.Wait()
		cancel(why)
		all.Wait()
		if len(there) != 1 {
			t.Errorf("%d were opened", len(there))
		}
	})
}
