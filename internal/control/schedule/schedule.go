// Package schedule decides which server works on which agent, and in which
// machine. It takes the lease on every agent with an open run, gives the
// agent's loop a machine, and continues what an earlier server has left. It
// keeps no important state in memory: leases are in the store, and machines in
// the journal.
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
	"aloft/internal/control/fleet"
	"aloft/internal/control/gateway"
	"aloft/internal/control/identity"
	"aloft/internal/control/live"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/offer"
	"aloft/internal/control/loop/proof"
	"aloft/internal/control/loop/pullrequest"
	"aloft/internal/control/machine"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/policy"
	"aloft/internal/policy/sandbox"
	"aloft/internal/redact"
	"aloft/internal/rule"
	"aloft/internal/secret"
	"aloft/internal/telemetry"
)

// Config is what a scheduler needs.
type Config struct {
	Journal store.Journal
	Agents  store.Agents
	Leases  store.Leases
	Owner   string // this server's name on its leases; unchanged by a restart on the same data
	Runtime machine.Runtime
	Limits  machine.Limits // of every machine
	Image   string         // of every machine
	Class   string         // for agents that do not choose one
	Network policy.Network // what machines may reach; the zero value is no network
	// ConnectionLogs is the folder with the log of each agent's network
	// connections. If it is "", only the machine's network gateway has a log.
	ConnectionLogs string
	Gateway        Gateway
	// MayReach returns a fault unless the user may run agents on a repository.
	// If it is nil, everyone may use all repositories.
	MayReach func(ctx context.Context, userID int64, repoURL string) error
	// Dependencies are URL prefixes of repositories that other repositories may
	// name as dependencies, to be fetched. If it is nil, a repository may name
	// those of its own owner.
	Dependencies []string
	// Environments decides what machines are built from. If it is nil, all use
	// Image.
	Environments Environments
	SetUp        SetUp
	// Model returns the model with that id, or the default for "".
	Model func(id string) (model.Model, model.Info, error)
	// FastModel returns the reference to the model for small tasks; "" is the
	// agent's model. If it is nil, there is none.
	FastModel func(context.Context) (string, error)
	// Checks configures the checks of runs.
	Checks proof.Checks
	// Repeats is [loop.Config.Repeats].
	Repeats int
	// Secret is 32 random bytes from which the tokens of machines are derived,
	// so that the tokens survive a restart without being stored.
	Secret []byte
	Author Author // of the commits that are made for agents
	// Secrets returns values, by name, to redact from everything that comes out
	// of the agent's machine. It may be nil.
	Secrets func(agentID string) map[string]string
	// Variables returns the environment variables for the agent's machine, and
	// when they expire; the zero time means never. Secret ones are also
	// redacted. It may be nil.
	Variables func(ctx context.Context, a agent.Agent) (secret.Set, time.Time, error)
	// Identity signs tokens that prove to others which agent a program belongs
	// to. If it is nil, programs get no tokens.
	Identity Identity
	// Room returns a fault if no more machines should be created because the
	// disk is full. It may be nil.
	Room func() error
	// Artifacts stores files that outlive machines; nil stores none.
	Artifacts Artifacts
	Layers    Layers // saved disks; nil if disks cannot be saved
	// Idle is how long a machine may be unused before it is put to sleep; 0
	// means for ever.
	Idle time.Duration
	// DiskOnly puts machines to sleep without their processes, so that no
	// memory is written to disk.
	DiskOnly bool
	// Allowed returns the limits that the team and the server set for each run
	// of an agent. If it is nil, there are none.
	Allowed func(ctx context.Context, a agent.Agent) (allowance.Amount, error)
	// Privacy reports whether a run is in privacy mode. If it is nil, no run
	// is.
	Privacy func(ctx context.Context, r agent.Run) (bool, error)
	// Retention returns how long an agent's machine may be unused before it is
	// removed with its disk. 0 or a nil function means for ever.
	Retention func(ctx context.Context, a agent.Agent) (time.Duration, error)
	// TeamEgress returns the team's network restriction at a point in time. The
	// zero value or a nil function means none.
	TeamEgress func(context.Context, time.Time) (agent.Egress, error)
	// Spans makes machines record spans below their runs' spans, and exports
	// them. If it is nil, as in ghost mode, exec-daemon records none.
	Spans *telemetry.Telemetry
	// Review decides which tool calls may run. If it is nil, all may.
	Review loop.Reviewer
	// MCP provides the agents' MCP servers; nil means none.
	MCP offer.Servers
	// Sandbox reports whether machines of a class can enforce the sandbox
	// policy for single commands. This is known from the host's configuration,
	// never from what a machine claims. If it is nil, none can.
	Sandbox func(class string) bool
	// SandboxPolicy returns the sandbox policy for SandboxGit or for one of
	// Sandboxable; a nil policy means no sandbox. If SandboxPolicy is nil, none
	// of them is sandboxed.
	SandboxPolicy func(ctx context.Context, a agent.Agent, what string) (*sandbox.Policy, error)
	// Live shows clients what models are writing; nil shows nothing.
	Live *live.Board
	// Pulls opens pull requests, and finds those on which agents are started.
	// It may be nil.
	Pulls Pulls
	// Web searches the web; nil if no provider is configured.
	Web loop.Web
	// Images generates images; nil if no model for images is configured.
	Images    model.ImageModel
	ImageInfo model.ImageInfo
	// Hooks returns what people have configured for an agent's hooks. It may be
	// nil.
	Hooks func(ctx context.Context, a agent.Agent) (Hooks, error)
	// Rules returns the rules of the team and of an agent's owner. It may be
	// nil.
	Rules  func(ctx context.Context, a agent.Agent) ([]rule.Rule, error)
	Logger *slog.Logger
}

// Hooks is what people have configured for the hooks of an agent.
type Hooks struct {
	Team, User []byte // hooks.json each; nil if there is none
	Email      string // of the agent's owner; "" if unknown
}

// hooksOf returns the hooks configuration of an agent.
func (s *Scheduler) hooksOf(ctx context.Context, a agent.Agent) (Hooks, error) {
	if s.Hooks == nil {
		return Hooks{}, nil
	}
	return s.Hooks(ctx, a)
}

// Author is the author of commits.
type Author struct{ Name, Email string }

// Gateway is the git gateway through which git in a machine reaches its
// remotes.
type Gateway interface {
	http.Handler
	Grant(g gateway.Grant) (credential string, err error)
	Revoke(credential string)
	Check(ctx context.Context, repoURL, ref string) (gateway.RefInfo, error)
	Reach(ctx context.Context, w gateway.ReachRequest) gateway.Reached
	Diff(ctx context.Context, repoURL, base, branch string, limit int) (diff string, truncated bool, err error)
	Patch(ctx context.Context, repoURL, base, branch string, limit int) (gateway.Patch, error)
}

// Pulls opens and finds pull requests at forges.
type Pulls interface {
	pullrequest.Pulls
	// Found returns the pull request with the given URL, for an agent that will
	// work on it in that repository.
	Found(ctx context.Context, repoURL, prURL string) (agent.PullRequest, error)
}

// Identity signs tokens that prove a workload's identity to an audience.
type Identity interface {
	Token(w identity.Workload, audience, nonce string) (token string, expires time.Time, err error)
}

// Artifacts stores the files from agents' artifacts folders.
type Artifacts interface {
	Collect(ctx context.Context, agentID string, from artifact.Source, secrets *redact.Redactor) (left []artifact.Left, err error)
}

// Lease times: another server takes an agent over when its lease was not
// renewed for leaseTTL.
const (
	leaseTTL   = 30 * time.Second
	leaseRenew = leaseTTL / 3
)

// Scheduler runs loops. Its methods are safe for concurrent use.
type Scheduler struct {
	Config
	wake     chan string
	machines fleet.Connections
	given    given
	boots    chan struct{} // one slot for each machine that may boot at once
	began    time.Time

	mu      sync.Mutex
	workers map[string]*worker // by agent
	forking map[string]bool    // layers of forks that are being created
	running sync.WaitGroup
}

// New returns a scheduler. Run starts it.
func New(c Config) *Scheduler {
	return &Scheduler{
		Config:  c,
		wake:    make(chan string, 1024),
		boots:   make(chan struct{}, max(2, 2*runtime.NumCPU())),
		workers: map[string]*worker{},
		began:   time.Now(),
	}
}

// Run works on open runs until ctx ends. Then it waits until every loop has
// left its run in a state that another server can continue. Machines keep
// running.
func (s *Scheduler) Run(ctx context.Context) error {
	defer s.running.Wait()
	s.sweep(ctx, true)
	s.running.Go(func() { s.restAlways(ctx) })
	s.running.Go(func() { s.sweepAlways(ctx) })
	tick := time.NewTicker(leaseTTL)
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
			case <-tick.C: // finds what another server has left, and missed wakes
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

// Wake tells the scheduler that the agent has a new run or a request to cancel
// one.
func (s *Scheduler) Wake(agentID string) {
	select {
	case s.wake <- agentID:
	default: // the next tick finds it
	}
}

// start starts a worker for the agent, or makes the existing one look again.
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
