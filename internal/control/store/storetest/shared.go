package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/store"
)

// RunShared runs the tests for stores that several servers can open at once.
// The function make creates an empty store, and returns a function that opens
// it under a server's name.
func RunShared(t *testing.T, make func(t *testing.T) (open func() Store)) {
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, one, two Store)
	}{
		{"WaitEndsWithAnothersEvent", testSharedWait},
		{"WaitEndsWithAnothersDeletion", testSharedGone},
		{"FollowerMissesNothingOfTwo", testSharedFollow},
		{"OneOfTwoWhoKnowTheHeadWins", testSharedHead},
		{"LeaseIsOneServers", testSharedLease},
		{"LapsedLeaseIsTakenFromADeadServer", testSharedSteal},
		{"DeliveriesAreSentByOne", testSharedDeliveries},
		{"AnOwnerIsLeft", testSharedOwners},
		{"LinkIsGoodOnce", testSharedLink},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			open := make(t)
			tt.run(t, open(), open())
		})
	}
}

func testSharedWait(t *testing.T, one, two Store) {
	agentID, runID := newAgent(t, one)
	for n := range int64(20) {
		done := waiting(t.Context(), two, agentID, 2+n)
		mustAppend(t, one, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "a")}})
		if err := answer(t, done); err != nil {
			t.Fatal(err)
		}
		if events, err := two.Read(t.Context(), agentID, 2+n, 10); err != nil || len(events) != 1 {
			t.Fatalf("the other server reads %d events, %v; want the one it was told of", len(events), err)
		}
	}
}

func testSharedGone(t *testing.T, one, two Store) {
	agentID, runID := newAgent(t, one)
	mustAppend(t, two, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "a")}})
	done := waiting(t.Context(), two, agentID, 3)
	if err := one.DeleteAgent(t.Context(), agentID); err != nil {
		t.Fatal(err)
	}
	wantError(t, "Wait", answer(t, done), store.ErrNotFound)
	_, err := two.Append(t.Context(), store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "a")}})
	wantError(t, "append to what another has deleted", err, store.ErrNotFound)
}

// testSharedFollow makes two servers append to one journal while each of them
// follows it.
func testSharedFollow(t *testing.T, one, two Store) {
	agentID, runID := newAgent(t, one)
	const each = 60
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range []Store{one, two} {
		wg.Go(func() {
			for range each {
				if _, err := s.Append(ctx, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "a")}}); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			followFrom(ctx, t, s, agentID, 2, 2+2*each)
		})
	}
	wg.Wait()
	if a, err := two.Agent(t.Context(), agentID); err != nil || a.Head != 2+2*each {
		t.Errorf("the agent's head is %d, %v; want %d", a.Head, err, 2+2*each)
	}
}

func testSharedHead(t *testing.T, one, two Store) {
	agentID, runID := newAgent(t, one)
	for head := int64(2); head < 12; head++ {
		var won, moved atomic.Int32
		var wg sync.WaitGroup
		for _, s := range []Store{one, two, one, two} {
			wg.Go(func() {
				_, err := s.Append(t.Context(), store.Append{AgentID: agentID, IfHead: &head, Events: []agent.Event{text(runID, "a")}})
				switch {
				case err == nil:
					won.Add(1)
				case errors.Is(err, store.ErrMoved):
					moved.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || moved.Load() != 3 {
			t.Fatalf("at %d: %d have appended and %d were late; want 1 and 3", head, won.Load(), moved.Load())
		}
	}
}

func testSharedLease(t *testing.T, one, two Store) {
	for i := range 10 {
		var won atomic.Int32
		var wg sync.WaitGroup
		for n, s := range []Store{one, two, one, two, one, two} {
			wg.Go(func() {
				got, err := s.Acquire(t.Context(), fmt.Sprint("lease", i), fmt.Sprint("server", n), time.Hour)
				if err != nil {
					t.Error(err)
				}
				if got {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d servers have lease %d; want 1", won.Load(), i)
		}
	}
}

func testSharedSteal(t *testing.T, one, two Store) {
	agentID, runID := newAgent(t, one)
	lease := store.LeaseOn(agentID)
	write := func(s Store, owner string) error {
		_, err := s.Append(t.Context(), store.Append{AgentID: agentID, Owner: owner, Events: []agent.Event{text(runID, "a")}})
		return err
	}
	acquire(t, one, lease, "one", time.Hour, true)
	acquire(t, two, lease, "two", time.Hour, false)
	wantError(t, "append by a server without the lease", write(two, "two"), store.ErrLeaseLost)
	acquire(t, one, lease, "one", time.Nanosecond, true) // the server is silent from here on
	acquire(t, two, lease, "two", time.Hour, true)
	wantError(t, "append by the server that was taken for dead", write(one, "one"), store.ErrLeaseLost)
	acquire(t, one, lease, "one", time.Hour, false)
	if err := write(two, "two"); err != nil {
		t.Errorf("append by the new owner: %v", err)
	}
	if n := len(readAll(t, one, agentID)); n != 3 {
		t.Errorf("the journal has %d events; want 3", n)
	}
}

func testSharedDeliveries(t *testing.T, one, two Store) {
	const runs = 12
	want := map[string]bool{}
	for range runs {
		id, run := newHooked(t, one)
		end(t, one, id, run)
		want[deliveries(t, two, id)[0].ID] = true
	}
	var mu sync.Mutex
	claimed := map[string]int{}
	var wg sync.WaitGroup
	for n, s := range []Store{one, two, one, two} {
		wg.Go(func() {
			for {
				some, err := s.ClaimDeliveries(t.Context(), fmt.Sprint("server", n), time.Hour, 3)
				if err != nil {
					t.Error(err)
				}
				if len(some) == 0 {
					return
				}
				mu.Lock()
				for _, d := range some {
					claimed[d.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id := range want {
		if claimed[id] != 1 {
			t.Errorf("delivery %s was claimed %d times; want 1", id, claimed[id])
		}
	}
}

// testSharedOwners has two owners demote themselves at once on different
// servers. One owner must remain.
func testSharedOwners(t *testing.T, one, two Store) {
	var ids []int64
	for range 2 {
		u, err := one.AddUser(t.Context(), account.User{Role: account.Owner})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, u.ID)
	}
	var left, stayed atomic.Int32
	var wg sync.WaitGroup
	for i, s := range []Store{one, two} {
		wg.Go(func() {
			_, err := s.UpdateUser(t.Context(), ids[i], func(u *account.User) error { u.Role = account.Member; return nil })
			switch {
			case err == nil:
				left.Add(1)
			case errors.Is(err, store.ErrLastOwner):
				stayed.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if left.Load() != 1 || stayed.Load() != 1 {
		t.Errorf("%d owners have left and %d had to stay; want one of each", left.Load(), stayed.Load())
	}
}

func testSharedLink(t *testing.T, one, two Store) {
	u, err := one.AddUser(t.Context(), account.User{})
	if err != nil {
		t.Fatal(err)
	}
	hash := [32]byte{7}
	if err := one.AddLink(t.Context(), hash, u.ID, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	var taken atomic.Int32
	var wg sync.WaitGroup
	for _, s := range []Store{one, two, one, two} {
		wg.Go(func() {
			_, err := s.TakeLink(t.Context(), hash, time.Now())
			if err == nil {
				taken.Add(1)
			} else if !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1 {
		t.Errorf("the link was good %d times", taken.Load())
	}
}
