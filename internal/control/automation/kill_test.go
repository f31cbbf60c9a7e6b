package automation

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

var errKilled = errors.New("the server was killed")

// fuse simulates a server that is killed before or after one of its effects:
// all later effects are dropped.
type fuse struct{ left int }

// burn counts one point at which the server may die. It returns an error if the
// server is dead.
func (f *fuse) burn() error {
	if f.left--; f.left < 0 {
		return errKilled
	}
	return nil
}

// run runs an effect between two points at which the server may die.
func (f *fuse) run(effect func() error) error {
	if err := f.burn(); err != nil {
		return err
	}
	err := effect()
	if dead := f.burn(); dead != nil {
		return dead
	}
	return err
}

type mortalAgents struct {
	*agents
	fuse *fuse
}

func (m mortalAgents) Start(ctx context.Context, s Start) error {
	return m.fuse.run(func() error { return m.agents.Start(ctx, s) })
}

func (m mortalAgents) Cancel(ctx context.Context, agentID, runID string) error {
	return m.fuse.run(func() error { return m.agents.Cancel(ctx, agentID, runID) })
}

type mortalStore struct {
	Store
	fuse *fuse
}

func (m mortalStore) ChangeAutomation(ctx context.Context, id string, change func(*store.Automation) ([]store.AutomationStart, error)) (a store.Automation, err error) {
	err = m.fuse.run(func() (err error) { a, err = m.Store.ChangeAutomation(ctx, id, change); return err })
	return a, err
}

func (m mortalStore) ChangeStart(ctx context.Context, id string, since time.Time, change func(*store.StartChange) error) (of store.AutomationStart, err error) {
	err = m.fuse.run(func() (err error) { of, err = m.Store.ChangeStart(ctx, id, since, change); return err })
	return of, err
}

func (m mortalStore) AddStart(ctx context.Context, s store.AutomationStart) (added bool, err error) {
	err = m.fuse.run(func() (err error) { added, err = m.Store.AddStart(ctx, s); return err })
	return added, err
}

func (m mortalStore) SetNarrowing(ctx context.Context, agentID string, narrowing json.RawMessage) error {
	return m.fuse.run(func() error { return m.Store.SetNarrowing(ctx, agentID, narrowing) })
}

// killAt runs the scenario with a server that dies at the n-th point, and then
// restarts the server until nothing is left to do. It returns false if the
// server lived to the end.
func (w *world) killAt(n int, scenario func(*Desk) error) (killed bool) {
	w.t.Helper()
	f := &fuse{left: n}
	w.desk = w.newDesk(mortalStore{w.store, f}, mortalAgents{w.agents, f})
	err := scenario(w.desk)
	for i := 0; err == nil && f.left >= 0 && i < 20; i++ {
		w.work(w.desk)
		w.now = w.now.Add(queueWait)
	}
	w.desk = w.newDesk(w.store, w.agents)
	if killed = f.left < 0; !killed {
		return false
	}
	if err := w.store.ReleaseAutomations(w.t.Context(), "a"); err != nil {
		w.t.Fatal(err)
	}
	if err := scenario(w.desk); err != nil { // the event is delivered again, and the request is repeated
		w.t.Fatal(err)
	}
	w.settle()
	return true
}

// everyPoint runs the test once for each point at which the server can die.
func everyPoint(t *testing.T, least int, test func(t *testing.T, n int) (killed bool)) {
	t.Helper()
	n := 0
	for ; test(t, n); n++ {
		if t.Failed() {
			t.Fatalf("killed at %d", n)
		}
		if n > 200 {
			t.Fatal("it never finishes")
		}
	}
	if n < least {
		t.Errorf("the server died at %d points, want at least %d", n, least)
	}
}

// The server dies before and after every effect of a scheduled start. There is
// exactly one start for each scheduled time, with one agent.
func TestDeathOfSchedule(t *testing.T) {
	everyPoint(t, 10, func(t *testing.T, n int) bool {
		w := newWorld(t)
		s := scheduled("0 3 * * *")
		s.Tools = []string{"Read"}
		a := w.add(s)
		w.now = begin.Add(time.Minute)
		killed := w.killAt(n, func(*Desk) error { return nil })
		w.want(a, "running")
		if len(w.agents.started) != 1 {
			t.Errorf("started %d agents", len(w.agents.started))
		}
		if next := w.current(a).NextAt; !next.Equal(time.Date(2025, 11, 3, 3, 0, 0, 0, time.UTC)) {
			t.Errorf("next at %s", next)
		}
		if n, err := NarrowingOf(t.Context(), w.store, w.agents.started[0].AgentID); err != nil || n.Permits("Shell") {
			t.Errorf("the agent is not restricted: %v", err)
		}
		w.finish(0, &agent.RunEnded{Status: agent.Finished})
		w.want(a, "succeeded")
		return killed
	})
}

// The server dies before and after every effect of an event that starts two
// automations.
func TestDeathOfEvent(t *testing.T) {
	everyPoint(t, 16, func(t *testing.T, n int) bool {
		w := newWorld(t)
		s := minimal()
		s.On.Event = &OnEvent{}
		a, b := w.add(s), w.add(s)
		issue := w.forge.OpenIssue(w.repo, "ada", "x", "y")
		killed := w.killAt(n, func(d *Desk) error {
			_, err := d.Heard(t.Context(), w.event("evt-1", issue, "ada", "z"))
			return err
		})
		w.want(a, "running")
		w.want(b, "running")
		if len(w.agents.started) != 2 {
			t.Errorf("started %d agents", len(w.agents.started))
		}
		return killed
	})
}

// The server dies before and after every effect of a start that replaces an
// earlier one.
func TestDeathOfReplacement(t *testing.T) {
	everyPoint(t, 14, func(t *testing.T, n int) bool {
		w := newWorld(t)
		s := minimal()
		s.Concurrency = Replace
		a := w.add(s)
		w.byHand(a, "1")
		w.settle()
		w.now = w.now.Add(time.Minute)
		killed := w.killAt(n, func(d *Desk) error {
			_, err := d.ByHand(t.Context(), a, 9, "2", nil, false)
			return err
		})
		w.now = w.now.Add(time.Minute)
		w.settle()
		w.want(a, "cancelled", "running")
		if len(w.agents.started) != 2 || len(w.agents.cancelled) != 1 {
			t.Errorf("started %d agents, cancelled %d", len(w.agents.started), len(w.agents.cancelled))
		}
		return killed
	})
}

// The server dies before and after every effect of the end of a failed start.
// The failure counts once.
func TestDeathAtTheEnd(t *testing.T) {
	everyPoint(t, 2, func(t *testing.T, n int) bool {
		w := newWorld(t)
		a := w.add(minimal())
		w.byHand(a, "1")
		w.settle()
		if err := w.agents.end(t.Context(), w.agents.started[0].AgentID, w.agents.started[0].RunID, &agent.RunEnded{Status: agent.Failed}); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Minute)
		killed := w.killAt(n, func(*Desk) error { return nil })
		w.want(a, "failed")
		if got := w.current(a); got.Failures != 1 {
			t.Errorf("%d failures", got.Failures)
		}
		return killed
	})
}

// Two servers work on the same store. Each start has one agent.
func TestTwoServers(t *testing.T) {
	w := newWorld(t)
	w.now = time.Now().Add(-time.Minute)
	var all []store.Automation
	for range 20 {
		a := w.add(scheduled("0 0 1 1 *"))
		if _, err := w.store.ChangeAutomation(t.Context(), a.ID, func(a *store.Automation) ([]store.AutomationStart, error) {
			a.NextAt, a.DueAt = w.now, w.now
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	second := w.newDesk(w.store, w.agents)
	second.Owner = "b"
	w.desk.now, second.now = time.Now, time.Now
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 2)
	for _, d := range []*Desk{w.desk, second} {
		go func() { over <- d.Run(ctx) }()
	}
	for done := false; !done; {
		if done = true; t.Context().Err() != nil {
			t.Fatal("the automations did not start in time")
		}
		for _, a := range all {
			got := w.history(a)
			done = done && len(got) == 1 && got[0] == "running"
		}
	}
	stop()
	for range 2 {
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
	if len(w.agents.started) != len(all) {
		t.Errorf("started %d agents", len(w.agents.started))
	}
}
