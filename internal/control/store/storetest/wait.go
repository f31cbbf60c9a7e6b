package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

var waitTests = []test{
	{"ReturnsAtOnceForWhatIsThere", testWaitThere},
	{"OfNothingIsErrNotFound", testWaitNothing},
	{"EndsWithTheNextEvent", testWaitNext},
	{"GoesOnUntilTheNumberIsReached", testWaitNumber},
	{"OfDeletedAgentIsErrNotFound", testWaitDeleted},
	{"EndsWithTheContext", testWaitCancelled},
	{"AThousandWait", testWaitThousand},
	{"FollowerMissesNothing", testFollow},
}

// waiting calls Wait in a goroutine, and returns a channel for the result. A
// test cannot know whether Wait has begun; the tests work in both cases.
func waiting(ctx context.Context, s Store, agentID string, after int64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Wait(ctx, agentID, after) }()
	return done
}

func answer(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("Wait did not return")
		return nil
	}
}

func testWaitThere(t *testing.T, s Store) {
	agentID, _ := newAgent(t, s)
	for after := range int64(2) {
		if err := answer(t, waiting(t.Context(), s, agentID, after)); err != nil {
			t.Error(err)
		}
	}
}

func testWaitNothing(t *testing.T, s Store) {
	wantError(t, "Wait for no agent", answer(t, waiting(t.Context(), s, agent.NewID(), 0)), store.ErrNotFound)
}

func testWaitNext(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	other, otherRun := newAgent(t, s)
	done := waiting(t.Context(), s, agentID, 2)
	mustAppend(t, s, store.Append{AgentID: other, Events: []agent.Event{text(otherRun, "not this one")}})
	select {
	case err := <-done:
		t.Fatalf("Wait returned %v before there was anything", err)
	default:
	}
	mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "a")}})
	if err := answer(t, done); err != nil {
		t.Error(err)
	}
}

func testWaitNumber(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	done := waiting(t.Context(), s, agentID, 4)
	for range 2 {
		mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "a")}})
	}
	select {
	case err := <-done:
		t.Fatalf("Wait for what comes after 4 returned %v at 4", err)
	default:
	}
	mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "a")}})
	if err := answer(t, done); err != nil {
		t.Error(err)
	}
}

func testWaitDeleted(t *testing.T, s Store) {
	agentID, _ := newAgent(t, s)
	var all []<-chan error
	for range 10 {
		all = append(all, waiting(t.Context(), s, agentID, 2))
	}
	if err := s.DeleteAgent(t.Context(), agentID); err != nil {
		t.Fatal(err)
	}
	for _, done := range all {
		wantError(t, "Wait", answer(t, done), store.ErrNotFound)
	}
}

func testWaitCancelled(t *testing.T, s Store) {
	agentID, _ := newAgent(t, s)
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := waiting(ctx, s, agentID, 2)
	cancel(why)
	if err := answer(t, done); !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v; want the cause", err)
	}
}

func testWaitThousand(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	var all []<-chan error
	for range 1000 {
		all = append(all, waiting(t.Context(), s, agentID, 2))
	}
	mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "a")}})
	for _, done := range all {
		if err := answer(t, done); err != nil {
			t.Fatal(err)
		}
	}
}

// testFollow waits, reads, and repeats, as a stream does.
func testFollow(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	const events, followers = 200, 5
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for range followers {
		wg.Go(func() {
			followFrom(ctx, t, s, agentID, 2, 2+events)
		})
	}
	for range events {
		mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{text(runID, "a")}})
	}
	wg.Wait()
}

// followFrom reads the events with the numbers from at+1 to end. It fails the
// test if an event is missing or Wait returns too early.
func followFrom(ctx context.Context, t *testing.T, s Store, agentID string, at, end int64) {
	for at < end {
		if err := s.Wait(ctx, agentID, at); err != nil {
			t.Error(err)
			return
		}
		got, err := s.Read(ctx, agentID, at, 10)
		if err != nil || len(got) == 0 {
			t.Errorf("Read after %d = %d events, %v, though Wait says that there are some", at, len(got), err)
			return
		}
		for _, e := range got {
			if e.Seq != at+1 {
				t.Errorf("event %d follows %d", e.Seq, at)
				return
			}
			at = e.Seq
		}
	}
}
