package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

var leaseTests = []test{
	{"OneOwnerAtATime", testLeaseOne},
	{"LapsedLeaseIsTakenOver", testLeaseLapses},
	{"ReleaseLeavesAnothersAlone", testLeaseRelease},
	{"OneOfManyGetsIt", testLeaseRace},
	{"AppendIsFenced", testFence},
	{"LapsedLeaseHoldsUntilItIsTaken", testFenceLapsed},
}

func acquire(t *testing.T, s Store, name, owner string, ttl time.Duration, want bool) {
	t.Helper()
	got, err := s.Acquire(t.Context(), name, owner, ttl)
	if err != nil || got != want {
		t.Fatalf("Acquire(%s, %s) = %v, %v; want %v", name, owner, got, err, want)
	}
}

func testLeaseOne(t *testing.T, s Store) {
	acquire(t, s, "a", "one", time.Hour, true)
	acquire(t, s, "a", "two", time.Hour, false)
	acquire(t, s, "a", "one", time.Hour, true) // renews the lease
	acquire(t, s, "b", "two", time.Hour, true)
}

func testLeaseLapses(t *testing.T, s Store) {
	acquire(t, s, "a", "one", time.Millisecond, true)
	deadline := time.Now().Add(patience)
	for {
		got, err := s.Acquire(t.Context(), "a", "two", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if got {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the lease does not lapse")
		}
	}
	acquire(t, s, "a", "one", time.Hour, false)
}

func testLeaseRelease(t *testing.T, s Store) {
	acquire(t, s, "a", "one", time.Hour, true)
	if err := s.Release(t.Context(), "a", "two"); err != nil {
		t.Error(err)
	}
	acquire(t, s, "a", "two", time.Hour, false)
	for range 2 {
		if err := s.Release(t.Context(), "a", "one"); err != nil {
			t.Error(err)
		}
	}
	acquire(t, s, "a", "two", time.Hour, true)
	if err := s.Release(t.Context(), "never taken", "one"); err != nil {
		t.Error(err)
	}
}

func testLeaseRace(t *testing.T, s Store) {
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		owner := agent.NewID()
		wg.Go(func() {
			got, err := s.Acquire(t.Context(), "a", owner, time.Hour)
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
		t.Errorf("%d owners have the lease; want 1", won.Load())
	}
}

func testFence(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	lease := store.LeaseOn(agentID)
	try := func(owner string) error {
		_, err := s.Append(t.Context(), store.Append{AgentID: agentID, Owner: owner, Events: []agent.Event{text(runID, "a")}})
		return err
	}
	wantError(t, "append without a lease", try("one"), store.ErrLeaseLost)
	acquire(t, s, lease, "one", time.Hour, true)
	if err := try("one"); err != nil {
		t.Errorf("append by the owner: %v", err)
	}
	wantError(t, "append by another", try("two"), store.ErrLeaseLost)
	if err := try(""); err != nil {
		t.Errorf("append by nobody in particular: %v", err)
	}
	if err := s.Release(t.Context(), lease, "one"); err != nil {
		t.Fatal(err)
	}
	acquire(t, s, lease, "two", time.Hour, true)
	wantError(t, "append by the owner of before", try("one"), store.ErrLeaseLost)
	if err := try("two"); err != nil {
		t.Errorf("append by the new owner: %v", err)
	}
	if n := len(readAll(t, s, agentID)); n != 5 {
		t.Errorf("the journal has %d events; want 5", n)
	}
}

func testFenceLapsed(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	acquire(t, s, store.LeaseOn(agentID), "one", time.Nanosecond, true)
	mustAppend(t, s, store.Append{AgentID: agentID, Owner: "one", Events: []agent.Event{text(runID, "a")}})
}
