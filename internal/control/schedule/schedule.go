// Package schedule decides which server works on which agent. It takes the
// lease on every agent with an open run, runs the agent's loop in a machine of
// the fleet, and continues the runs of servers that died. It keeps no important
// state in memory: leases are in the store.
package schedule

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/fleet"
	"aloft/internal/control/gateway"
	"aloft/internal/control/live"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/proof"
	"aloft/internal/control/loop/pullrequest"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/rule"
)

// Config configures a scheduler.
type Config struct {
	Journal store.Journal
	Agents  store.Agents
	Leases  store.Leases
	Owner   string       // this server's name on its leases; unchanged by a restart on the same data
	Fleet   *fleet.Fleet // the agents' machines
	Gateway Gateway
	// Model returns the model with the given id, or the default for "".
	Model func(id string) (model.Model, model.Info, error)
	// FastModel returns the reference to the model for small tasks; "" is the
	// agent's model. If it is nil, there is no such model.
	FastModel func(context.Context) (string, error)
	// Review decides which tool calls may run. If it is nil, all calls may run.
	Review loop.Reviewer
	// Pulls opens pull requests. It may be nil.
	Pulls pullrequest.Pulls
	// Checks configures the checks of runs.
	Checks proof.Checks
	// Repeats is [loop.Config.Repeats].
	Repeats int
	// Allowed returns the limits that the team and the server set for each run
	// of an agent. If it is nil, there are none.
	Allowed func(ctx context.Context, a agent.Agent) (allowance.Amount, error)
	// Privacy reports whether a run is in privacy mode. If it is nil, no run
	// is.
	Privacy func(ctx context.Context, r agent.Run) (bool, error)
	// Rules returns the rules of the team and of an agent's owner. It may be
	// nil.
	Rules func(ctx context.Context, a agent.Agent) ([]rule.Rule, error)
	// Live shows clients the calls that models are writing; nil shows nothing.
	Live *live.Board
	// Permits returns a function that reports whether an agent may use a tool.
	// If Permits or the function is nil, it may use all tools.
	Permits func(ctx context.Context, agentID string) (func(tool string) bool, error)
	// Tools holds the dependencies of the control plane's tools. The scheduler
	// sets Patches and Permits.
	Tools  loop.Tools
	Logger *slog.Logger
}

// Gateway is the git gateway, which records the pushes of agents.
type Gateway interface {
	Diff(ctx context.Context, repoURL, base, branch string, limit int) (diff string, truncated bool, err error)
	Patch(ctx context.Context, repoURL, base, branch string, limit int) (gateway.Patch, error)
	Blame(ctx context.Context, repoURL, base, tip string, paths []string) (gateway.Blamed, error)
}

// Scheduler runs loops. Its methods are safe for concurrent use.
type Scheduler struct {
	Config
	wake chan string

	mu      sync.Mutex
	workers map[string]*worker // by agent
	running sync.WaitGroup
}

// New returns a scheduler. Run starts it.
func New(c Config) *Scheduler {
	return &Scheduler{
		Config:  c,
		wake:    make(chan string, 1024),
		workers: map[string]*worker{},
	}
}

// Run works on open runs until ctx ends. Then it waits until every loop has
// left its run in a state that another server can continue. Machines keep
// running.
func (s *Scheduler) Run(ctx context.Context) error {
	defer s.running.Wait()
	s.Fleet.Sweep(ctx, true)
	s.running.Go(func() { s.Fleet.Maintain(ctx) })
	tick := time.NewTicker(store.LeaseTTL)
	defer tick.Stop()
	for {
		if err := s.resume(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Error("cannot read the open runs", "error", err)
		}
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return nil
			case id := <-s.wake:
				s.start(ctx, id)
			case <-tick.C: // finds runs that another server has left, and missed wake-ups
				again = true
			}
		}
	}
}

// resume starts a worker for each open run.
func (s *Scheduler) resume(ctx context.Context) error {
	runs, err := s.Agents.OpenRuns(ctx)
	if err != nil {
		return err
	}
	for _, r := range runs {
		s.start(ctx, r.AgentID)
	}
	return nil
}

// Wake tells the scheduler that the agent has a new run or a request to cancel
// one.
func (s *Scheduler) Wake(agentID string) {
	select {
	case s.wake <- agentID:
	default: // the next tick finds the agent
	}
}

// start starts a worker for the agent, or makes the existing one read the
// journal again.
func (s *Scheduler) start(ctx context.Context, agentID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.workers[agentID]; ok {
		w.look()
		return
	}
	w := newWorker(ctx, s, agentID)
	s.workers[agentID] = w
	s.running.Go(func() {
		w.run()
		s.mu.Lock()
		delete(s.workers, agentID)
		missed := w.again
		w.machine.End() // end the work before another worker of the agent can start
		s.mu.Unlock()
		if missed && ctx.Err() == nil {
			s.Wake(agentID)
		}
	})
}
