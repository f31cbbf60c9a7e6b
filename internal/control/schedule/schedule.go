// Package schedule decides which agent works, and in which machine. It takes
// the lease on every agent with an open run, gives its loop a machine, and goes
// on with what a server before it has left. It keeps nothing that matters in
// memory: who works is a lease, and which machine is the journal's.
package schedule

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/artifact"
	"aloft/internal/control/gateway"
	"aloft/internal/control/identity"
	"aloft/internal/control/live"
	"aloft/internal/control/loop"
	"aloft/internal/control/machine"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/policy"
	"aloft/internal/policy/sandbox"
	"aloft/internal/redact"
	"aloft/internal/secret"
	"aloft/internal/telemetry"
)

// Config is what a scheduler works with.
type Config struct {
	Journal store.Journal
	Agents  store.Agents
	Leases  store.Leases
	Owner   string // this server's name on its leases; the same after a restart on the same data
	Runtime machine.Runtime
	Limits  machine.Limits // of every machine
	Image   string         // of every machine
	Class   string         // of every machine whose agent does not say
	Network policy.Network // what machines may reach; the zero value is no network at all
	// ConnectionLogs is the folder that holds, by agent, what their machines
	// reached; "" keeps no more than a machine's gateway does.
	ConnectionLogs string
	Gateway        Gateway
	// Environments say what machines are made of; nil has all be of Image.
	// MayReach returns a fault unless the user may run agents on a repository; nil
	// lets everybody reach all.
	MayReach func(ctx context.Context, userID int64, repoURL string) error
	// Dependencies are prefixes of URLs of repositories that others may name as
	// theirs, to be fetched. Nil lets a repository name those of its own owner.
	Dependencies []string
	Environments Environments
	SetUp        SetUp
	// Model returns the model of that id, "" for the default.
	Model func(id string) (model.Model, model.Info, error)
	// FastModel is the id of the model for subagents whose work is small; "" is the
	// agent's own.
	FastModel string
	// Secret is 32 random bytes from which the tokens of machines are derived,
	// so that they are the same after a restart and are stored nowhere.
	Secret []byte
	Author Author // of the commits that are made for agents
	// Secrets returns values, by names, that must not come out of the agent's
	// machine, in what it says or in what it pushes. nil has none.
	Secrets func(agentID string) map[string]string
	// Variables returns what the agent's machine finds in its environment, and
	// until when that is good, a zero time for always. What of it is hidden counts
	// as Secrets do. nil gives nothing.
	Variables func(ctx context.Context, a agent.Agent) (secret.Set, time.Time, error)
	// Identity signs who an agent is, for programs in its machine; nil gives them
	// no tokens.
	Identity Identity
	// Room is a fault where no other machine should be made: the disk is full.
	// nil is always room.
	Room func() error
	// Artifacts keeps files that are to outlive machines; nil keeps none.
	Artifacts Artifacts
	Layers    Layers // disks that were saved; nil where none can be
	// Idle is for how long nobody uses a machine until it is put to sleep; 0 is for ever.
	Idle time.Duration
	// DiskOnly has machines sleep without their processes, so that no memory of
	// theirs lies on the disk.
	DiskOnly bool
	// Allowed is what the team and the server let each run of an agent use; nil is
	// all it wants.
	Allowed func(ctx context.Context, a agent.Agent) (allowance.Amount, error)
	// Privacy reports whether a run is in privacy mode; nil is never.
	Privacy func(ctx context.Context, r agent.Run) (bool, error)
	// Retention is for how long nobody uses an agent's machine until it is removed
	// with its disk; 0 is for ever, and so is nil.
	Retention func(ctx context.Context, a agent.Agent) (time.Duration, error)
	// TeamEgress is what the team had settled at a time of what machines may reach;
	// nil is nothing, and so is a zero value.
	TeamEgress func(context.Context, time.Time) (agent.Egress, error)
	// Spans has machines make spans below their runs' own, and sends them on. nil,
	// which is ghost mode, has exec-daemon make none.
	Spans *telemetry.Telemetry
	// Review decides how tool calls are treated. Without it all run.
	Review loop.Reviewer
	// MCP are the MCP servers of agents; nil has none.
	MCP loop.Servers
	// Sandbox reports whether machines of a class can hold the policy of the
	// sandbox around single commands. It is this host's knowledge, and never what a
	// machine says of itself. Without it none can.
	Sandbox func(class string) bool
	// Cage returns the policy of the sandbox around what is no tool call: SandboxHooks,
	// SandboxStart, SandboxTerminals or SandboxMCP; nil where that is to have none. Without it
	// none has.
	SandboxPolicy func(ctx context.Context, a agent.Agent, what string) (*sandbox.Policy, error)
	// Live shows watchers what models are writing; nil shows nobody.
	Live *live.Board
	// Pulls opens pull requests, and finds those that agents are started on; nil
	// where there are none.
	Pulls Pulls
	// Hooks returns what an agent's hooks are told of people, and have from them.
	// Without it that is nothing.
	Hooks  func(ctx context.Context, a agent.Agent) (Hooks, error)
	Logger *slog.Logger
}

// Hooks are what people have set for the hooks of an agent.
type Hooks struct {
	Team, User []byte // hooks.json each; nil for none
	Email      string // of the agent's person; "" if unknown
}

// hooksOf are those of an agent.
func (s *Scheduler) hooksOf(ctx context.Context, a agent.Agent) (Hooks, error) {
	if s.Hooks == nil {
		return Hooks{}, nil
	}
	return s.Hooks(ctx, a)
}

// Author is who commits.
type Author struct{ Name, Email string }

// Gateway is how git in a machine reaches its remotes.
type Gateway interface {
	http.Handler
	Grant(g gateway.Grant) (credential string, err error)
	Revoke(credential string)
	Check(ctx context.Context, repoURL, ref string) (gateway.RefInfo, error)
	Reach(ctx context.Context, w gateway.ReachRequest) gateway.Reached
	Diff(ctx context.Context, repoURL, base, branch string, limit int) (diff string, truncated bool, err error)
}

// Pulls asks forges for pull requests.
type Pulls interface {
	loop.Pulls
	// Found returns the pull request at an address, for an agent that is to go on
	// with it in that repository.
	Found(ctx context.Context, repoURL, prURL string) (agent.PullRequest, error)
}

// Identity signs that the bearer is a workload, to an audience.
type Identity interface {
	Token(w identity.Workload, audience, nonce string) (token string, expires time.Time, err error)
}

// Artifacts keeps what agents put into their folders of artifacts.
type Artifacts interface {
	Collect(ctx context.Context, agentID string, from artifact.Source, secrets *redact.Redactor) (left []artifact.Left, err error)
}

// Times of a lease: another server takes an agent over when its own has been
// silent for leaseTTL.
const (
	leaseTTL   = 30 * time.Second
	leaseRenew = leaseTTL / 3
)

// Scheduler runs loops. Its methods are safe for concurrent use.
type Scheduler struct {
	Config
	wake  chan string
	links links
	given given
	boots chan struct{} // a slot for each machine that may boot at once
	began time.Time

	mu      sync.Mutex
	workers map[string]*worker // by agent
	forking map[string]bool    // layers of agents that are about to be made
	running sync.WaitGroup
}

// New makes a scheduler; Run makes it work.
func New(c Config) *Scheduler {
	return &Scheduler{
		Config:  c,
		wake:    make(chan string, 1024),
		boots:   make(chan struct{}, max(2, 2*runtime.NumCPU())),
		workers: map[string]*worker{},
		began:   time.Now(),
	}
}

// Run works open runs until ctx ends, and then waits until every loop has left
// its run in a state from which another can go on. Machines stay up.
func (s *Scheduler) Run(ctx context.Context) error {
	defer s.running.Wait()
	s.sweep(ctx, true)
	s.running.Go(func() { s.restAlways(ctx) })
	s.running.Go(func() { s.sweepAlways(ctx) })
	tick := time.NewTicker(leaseTTL)
	defer tick.Stop()
	for {
		if err := s.resume(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Error("open runs cannot be read", "error", err)
		}
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return nil
			case id := <-s.wake:
				s.start(ctx, id)
			case <-tick.C: // what another server left, and wakes that were missed
				again = true
			}
		}
	}
}

// resume starts a worker for every open run.
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

// Wake says that the agent has a new run, or that a cancel was asked of the one it has.
func (s *Scheduler) Wake(agentID string) {
	select {
	case s.wake <- agentID:
	default: // the next tick finds it
	}
}

// start gives the agent a worker, or lets the one it has look again.
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
		s.mu.Unlock()
		close(w.done)
		if missed && ctx.Err() == nil {
			s.Wake(agentID)
		}
	})
}

// fold reads the agent's journal.
func (s *Scheduler) fold(ctx context.Context, agentID string) (*agent.State, error) {
	state := agent.Fold(agentID, nil)
	for {
		events, err := s.Journal.Read(ctx, agentID, state.Agent.Head, 1000)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			state.Apply(e)
		}
		if len(events) < 1000 {
			return state, nil
		}
	}
}
