package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/loop"
	"aloft/internal/control/store"
)

// ill is a store in which the next appends that contain an event of the given
// kind fail, as many as times says. Such an append first stalls, and then
// returns err or the error of the caller's context. If kept is true, it writes
// the events anyway.
type ill struct {
	store.Journal
	kind  string
	stall time.Duration
	err   error
	kept  bool
	times int
}

func (s *ill) Append(ctx context.Context, a store.Append) ([]agent.Event, error) {
	if s.times == 0 || !slices.ContainsFunc(a.Events, func(e agent.Event) bool { return e.Body.Kind() == s.kind }) {
		return s.Journal.Append(ctx, a)
	}
	s.times--
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("append to %s: %w", a.AgentID, context.Cause(ctx))
	case <-time.After(s.stall):
	}
	if s.err == nil || s.kept {
		if events, err := s.Journal.Append(ctx, a); err != nil || s.err == nil {
			return events, err
		}
	}
	return nil, fmt.Errorf("append to %s: %w", a.AgentID, s.err)
}

// TestTheStoreIsIll checks store failures during a run. When the store
// recovers, the run must continue: nothing is lost and nothing happens twice.
func TestTheStoreIsIll(t *testing.T) {
	for _, c := range []struct {
		name  string
		stall time.Duration
		err   error
		kept  bool
		times int
	}{
		{"Stalls", 10 * time.Second, nil, false, 1},
		{"StallsForMinutes", 3 * time.Minute, nil, false, 1},
		{"Unreachable", 5 * time.Second, store.ErrUnreachable, false, 4},
		{"Full", 0, store.ErrFull, false, 4},
		{"UnknownAndLost", 20 * time.Second, store.ErrUnknown, false, 2},
		{"UnknownAndKept", 20 * time.Second, store.ErrUnknown, true, 1},
	} {
		for _, body := range []agent.Body{&agent.RunStarted{}, &agent.TurnReplied{}, &agent.CallJudged{}, &agent.CallSent{}, &agent.CallDone{}, &agent.Committed{}, &agent.Pushed{}, &agent.RunEnded{}} {
			t.Run(c.name+"At"+body.Kind(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, true)
					r.model.steps = []step{use(`Shell {"command":"make"}`), say("done")}
					config := r.config()
					config.Journal = &ill{Journal: r.store, kind: body.Kind(), stall: c.stall, err: c.err, kept: c.kept, times: c.times}
					if err := loop.Run(context.Background(), r.id, config); err != nil {
						t.Fatal(err)
					}
					run, err := r.store.Run(context.Background(), r.id, r.run)
					if err != nil || run.Status != agent.Finished || run.Turns != 2 {
						t.Errorf("%+v, %+v, %v", run, run.Failure, err)
					}
					if want := []string{"Shell", "commit", "push aloft/test-0000"}; !slices.Equal(r.machine.asked, want) || !slices.Equal(results(r), []string{"ok"}) {
						t.Errorf("the machine was asked %q; results %q", r.machine.asked, results(r))
					}
					for _, kind := range []string{"run.started", "call.sent", "call.done", "run.ended"} {
						if n := kinds(r)[kind]; n != 1 {
							t.Errorf("%d times %s", n, kind)
						}
					}
				})
			})
		}
	}
}

// late is a store that loses its reply to the first append of events of one kind. It
// writes that append only when the next one comes.
type late struct {
	store.Journal
	kind string
	held *store.Append
	done bool
}

func (s *late) Append(ctx context.Context, a store.Append) ([]agent.Event, error) {
	if held := s.held; held != nil {
		s.held = nil
		if _, err := s.Journal.Append(ctx, *held); err != nil {
			return nil, err
		}
	} else if !s.done && slices.ContainsFunc(a.Events, func(e agent.Event) bool { return e.Body.Kind() == s.kind }) {
		s.held, s.done = &a, true
		return nil, fmt.Errorf("append to %s: %w", a.AgentID, store.ErrUnknown)
	}
	return s.Journal.Append(ctx, a)
}

// TestLostAppendArrivesLate checks that an append that arrives while it is
// retried is written once.
func TestLostAppendArrivesLate(t *testing.T) {
	for _, kind := range []string{"turn.replied", "call.done"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, false)
				r.model.steps = []step{use(`Shell {"command":"make"}`), say("done")}
				config := r.config()
				config.Journal = &late{Journal: r.store, kind: kind}
				if err := loop.Run(t.Context(), r.id, config); err != nil {
					t.Fatal(err)
				}
				if got := kinds(r); got["turn.replied"] != 2 || got["call.sent"] != 1 || got["call.done"] != 1 {
					t.Errorf("the journal has %v", got)
				}
			})
		})
	}
}

// kinds counts the journal's events by kind.
func kinds(r *rig) map[string]int {
	out := map[string]int{}
	for _, e := range r.events() {
		out[e.Body.Kind()]++
	}
	return out
}

// A cancel request or a shutdown does not wait for a store that stays down. The
// run stays open.
func TestTheStoreStaysAway(t *testing.T) {
	for _, cause := range []error{loop.ErrStop, loop.ErrCancel} {
		for _, err := range []error{nil, store.ErrUnreachable, store.ErrUnknown, store.ErrFull} {
			t.Run(fmt.Sprint(cause, err), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, false)
					r.model.steps = []step{use(`Shell {"command":"make"}`), say("done")}
					ctx, end := context.WithCancelCause(context.Background())
					config := r.config()
					config.Journal = &ill{Journal: r.store, kind: (&agent.CallDone{}).Kind(), stall: 1000 * time.Hour, times: 1000}
					if err != nil {
						config.Journal = &ill{Journal: r.store, kind: (&agent.CallDone{}).Kind(), stall: time.Second, err: err, times: 1 << 40}
					}
					time.AfterFunc(time.Hour, func() { end(cause) })
					began := time.Now()
					if err := loop.Run(ctx, r.id, config); err == nil && cause == loop.ErrStop { //nolint:errorlint // the identical error value
						t.Error("the run has ended")
					}
					if took := time.Since(began); took > time.Hour+3*time.Minute {
						t.Errorf("it took %v", took)
					}
					r.model.requests = nil
					r.model.steps = []step{say("done")}
					if run := r.runToEnd(context.Background()); cause == loop.ErrStop && (run.Status != agent.Finished || !slices.Equal(results(r), []string{"ok"})) { //nolint:errorlint // the identical error value
						t.Errorf("%s, %+v, results %q", run.Status, run.Failure, results(r))
					}
					if starts := slices.DeleteFunc(r.machine.asked, func(s string) bool { return s != "Shell" }); len(starts) != 1 {
						t.Errorf("started %d times", len(starts))
					}
				})
			})
		}
	}
}

// TestErrorsThatLeaveARunOpen checks that certain store errors leave a run
// open, wherever the loop gets them.
func TestErrorsThatLeaveARunOpen(t *testing.T) {
	for _, c := range []struct {
		err  error
		open bool
	}{
		{store.ErrLeaseLost, true}, {store.ErrFull, true}, {store.ErrNotFound, true},
		{store.ErrUnreachable, true}, {store.ErrUnknown, true}, {store.ErrClosed, true},
		{store.ErrExists, false}, {errors.New("the row is damaged"), false},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			r := newRig(t, false)
			r.model.steps = []step{say("done")}
			config := r.config()
			config.Team.Allowed = func(context.Context, agent.Agent) (allowance.Amount, error) {
				return allowance.Amount{}, fmt.Errorf("read the settings: %w", c.err)
			}
			err := loop.Run(t.Context(), r.id, config)
			run, readErr := r.store.Run(t.Context(), r.id, r.run)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if run.Status.Ended() == c.open || errors.Is(err, c.err) != c.open {
				t.Errorf("the run is %s, and the error %v", run.Status, err)
			}
			if !c.open {
				return
			}
			if run := r.runToEnd(t.Context()); run.Status != agent.Finished {
				t.Errorf("then it is %s, %+v", run.Status, run.Failure)
			}
		})
	}
	for _, e := range []error{store.ErrLeaseLost, store.ErrNotFound, store.ErrClosed} {
		r := newRig(t, false)
		r.model.steps = []step{use(`Shell {"command":"make"}`), say("done")}
		config := r.config()
		config.Journal = &ill{Journal: r.store, kind: (&agent.CallDone{}).Kind(), err: e, times: 1}
		err := loop.Run(t.Context(), r.id, config)
		run, readErr := r.store.Run(t.Context(), r.id, r.run)
		if run.Status.Ended() || !errors.Is(err, e) || readErr != nil {
			t.Errorf("%v at a result: %s, %v, %v", e, run.Status, err, readErr)
		}
		if run := r.runToEnd(t.Context()); run.Status != agent.Finished || !slices.Equal(results(r), []string{"ok"}) {
			t.Errorf("then it is %s, %q", run.Status, results(r))
		}
	}
}
