package schedule

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/fleet"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
	"aloft/internal/tool"
)

// started lists the actions of a machine when it boots.
var started = []string{"boot", "run service up", "terminal web"}

func (s *site) want(did ...string) {
	s.t.Helper()
	if got := s.guests.doneCalls(); !slices.Equal(got, did) {
		s.t.Errorf("the machines did %q, want %q", got, did)
	}
}

// Run works on runs that are open when it starts, and on runs for which it is
// woken. The agent's second run uses the first run's machine.
func TestRunWorksOpenRuns(t *testing.T) {
	s := newSite(t)
	id := s.agent()
	s.run()
	at, end := s.waitForEnd(id, 0)
	if end.Status != agent.Finished || end.Result != "done" {
		t.Fatalf("ended %+v, %+v", end, end.Failure)
	}
	s.want(started...)
	if state, err := s.Fleet.State(t.Context(), id); err != nil || state.User != "node" {
		t.Errorf("it works as %q, %v", state.User, err)
	}
	made := s.machines()
	s.prompt(id)
	s.Wake(id)
	if _, end = s.waitForEnd(id, at); end.Status != agent.Finished {
		t.Errorf("the second run ended %+v", end)
	}
	s.want()
	if got := s.machines(); len(got) != 1 || !slices.Equal(got, made) {
		t.Errorf("machines %q, were %q", got, made)
	}
}

// After an upgrade, a machine that runs the older server's programs is restarted with
// its disk and the new programs.
func TestUpgrade(t *testing.T) {
	s := newSite(t)
	id := s.agent()
	s.run()
	at, end := s.waitForEnd(id, 0)
	if end.Status != agent.Finished {
		t.Fatalf("ended %+v, %+v", end, end.Failure)
	}
	s.guests.doneCalls()
	made := s.machines()
	s.guests.mu.Lock()
	s.guests.evil.digest = func(boot string) string {
		if boot == "life-1" {
			return "that of an older version"
		}
		return tool.Digest()
	}
	s.guests.mu.Unlock()
	s.prompt(id)
	s.Wake(id)
	if _, end = s.waitForEnd(id, at); end.Status != agent.Finished {
		t.Errorf("the run after the upgrade ended %+v, %+v", end, end.Failure)
	}
	if did := s.guests.doneCalls(); len(did) == 0 {
		t.Error("the machine did not boot again")
	}
	if got := s.machines(); !slices.Equal(got, made) {
		t.Errorf("machines %q, were %q", got, made)
	}
}

// A server that shuts down leaves its run open and releases the lease at once,
// so that another server continues in the same machine.
func TestRunIsLeftToAnotherServer(t *testing.T) {
	s := newSite(t)
	asked := make(chan struct{}, 1)
	s.ask = func(ctx context.Context) error {
		asked <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	id := s.agent()
	stop := s.run()
	<-asked
	stop()
	run, err := s.store.OpenRuns(t.Context())
	if err != nil || len(run) != 1 || run[0].AgentID != id {
		t.Fatalf("open runs %+v, %v", run, err)
	}
	s.want(started...)

	machines, work := s.Fleet.Config, s.Config
	machines.Owner, work.Owner = "two", "two"
	work.Fleet = fleet.New(machines)
	other := New(work)
	s.ask, s.Scheduler = nil, other
	s.run()
	if _, end := s.waitForEnd(id, 0); end.Status != agent.Finished {
		t.Errorf("ended %+v", end)
	}
	s.want()
	if got := s.machines(); len(got) != 1 {
		t.Errorf("machines %q", got)
	}
}

// The next wake after a cancel request ends the run.
func TestWakeCancels(t *testing.T) {
	s := newSite(t)
	asked := make(chan struct{}, 1)
	s.ask = func(ctx context.Context) error {
		asked <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	id := s.agent()
	s.run()
	<-asked
	a, err := s.store.Agent(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	s.append(store.Append{AgentID: id, Events: []agent.Event{{RunID: a.LatestRunID, Body: &agent.CancelAsked{Reason: "a person"}}}})
	s.Wake(id)
	if _, end := s.waitForEnd(id, 0); end.Status != agent.Cancelled {
		t.Errorf("ended %+v", end)
	}
}

// Remove ends the run and destroys the machine.
func TestRemove(t *testing.T) {
	s := newSite(t)
	asked := make(chan struct{}, 1)
	s.ask = func(ctx context.Context) error {
		asked <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	id, other := s.agent(), agent.NewID()+"-0000"
	if _, err := s.Fleet.Runtime.Create(t.Context(), machine.Spec{ID: other, Image: "host"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Fleet.Remove(t.Context(), id); err != nil { // before the run starts
		t.Fatal(err)
	}
	s.start(t.Context(), id)
	<-asked
	if err := s.Fleet.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, end := s.waitForEnd(id, 0); end.Status != agent.Cancelled {
		t.Errorf("ended %+v", end)
	}
	if got := s.machines(); !slices.Equal(got, []string{other}) {
		t.Errorf("machines %q, want only another agent's", got)
	}
}

// If an agent is deleted while a run creates or uses its machine, no machine is
// left.
func TestDeletedAgentLeavesNoMachine(t *testing.T) {
	s := newSite(t)
	id := s.agent()
	s.ask = func(ctx context.Context) error { return s.store.DeleteAgent(ctx, id) }
	s.start(t.Context(), id)
	s.idle(id)
	if got := s.machines(); len(got) > 0 {
		t.Errorf("left are %q", got)
	}
	s.want(started...)
}

// A sweep destroys the machines of deleted and archived agents. It does not
// touch the machines of working agents, or machines that belong to no agent.
func TestSweep(t *testing.T) {
	s := newSite(t)
	asked, goOn := make(chan struct{}, 1), make(chan struct{})
	s.ask = func(context.Context) error {
		asked <- struct{}{}
		<-goOn
		return nil
	}
	working, archived := s.agent(), s.agent()
	s.start(t.Context(), working)
	<-asked
	made := s.machines()
	s.append(store.Append{AgentID: archived, Events: []agent.Event{{Body: &agent.Archived{Archived: true}}}})
	s.append(store.Append{AgentID: working, Events: []agent.Event{{Body: &agent.Archived{Archived: true}}}})
	for _, id := range []string{archived + "-0000", agent.NewID() + "-0000", "env-00000000"} {
		if _, err := s.Fleet.Runtime.Create(t.Context(), machine.Spec{ID: id, Image: "host"}); err != nil {
			t.Fatal(err)
		}
	}
	s.Fleet.Sweep(t.Context(), false)
	if got := s.machines(); !slices.Equal(got, append(made, "env-00000000")) {
		t.Errorf("left are %q, want %q and a build's", got, made)
	}
	close(goOn)
	s.idle(working)
	s.Fleet.Sweep(t.Context(), false)
	if got := s.machines(); !slices.Equal(got, []string{"env-00000000"}) {
		t.Errorf("left are %q after the run", got)
	}
}

// leftover is a runtime in which an orphaned machine appears while the server
// runs.
type leftover struct {
	machine.Runtime
	store.Agents
	mu        sync.Mutex
	id        string
	destroyed chan struct{}
}

func (l *leftover) set(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id = id
}

func (l *leftover) List(context.Context) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == "" {
		return nil, nil
	}
	return []string{l.id}, nil
}

func (l *leftover) Open(context.Context, string) (machine.Machine, error) { return remains{of: l}, nil }

func (l *leftover) OpenRuns(context.Context) ([]agent.Run, error) { return nil, nil }

func (l *leftover) Agent(context.Context, string) (agent.Agent, error) {
	return agent.Agent{}, store.ErrNotFound
}

type remains struct {
	machine.Machine
	of *leftover
}

func (r remains) Destroy(context.Context) error {
	r.of.set("")
	close(r.of.destroyed)
	return nil
}

// A running server destroys orphaned machines that appear later.
func TestRunSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leftover{destroyed: make(chan struct{})}
		log := slog.New(slog.DiscardHandler)
		s := New(Config{Agents: l, Fleet: fleet.New(fleet.Config{Agents: l, Runtime: l, Logger: log}), Logger: log})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		l.set(agent.NewID() + "-0000")
		select {
		case <-l.destroyed:
		case <-time.After(time.Hour): // in fake time
			t.Error("it is still there after an hour")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// After a visitor wakes a machine, the environment's start command and
// terminals run once per boot: the next run does not start them again.
func TestVisitorStartsTheEnvironment(t *testing.T) {
	s := newSite(t)
	id := s.agent()
	s.start(t.Context(), id)
	at, _ := s.waitForEnd(id, 0)
	s.idle(id)
	s.want(started...)
	m, err := s.Fleet.Runtime.Open(t.Context(), s.machines()[0])
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.(machine.Snapshotter).Stop(t.Context()); err != nil { //nolint:forcetypeassert // the fakes implement it
			t.Fatal(err)
		}
		for range 2 {
			a, err := s.Fleet.Access(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
		s.want(started...)
	}
	s.prompt(id)
	s.start(t.Context(), id)
	if _, end := s.waitForEnd(id, at); end.Status != agent.Finished {
		t.Errorf("ended %+v", end)
	}
	s.idle(id)
	s.want()
}
