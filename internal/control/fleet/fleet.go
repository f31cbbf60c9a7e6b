// Package fleet gives agents their machines. It creates, boots, connects to,
// saves, puts to sleep and removes machines, and opens them to visitors. It
// keeps no important state in memory: the journal records which machine each
// agent has.
package fleet

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/artifact"
	"aloft/internal/control/gateway"
	"aloft/internal/control/identity"
	"aloft/internal/control/machine"
	"aloft/internal/control/pullthrough"
	"aloft/internal/control/store"
	"aloft/internal/policy"
	"aloft/internal/policy/sandbox"
	"aloft/internal/redact"
	"aloft/internal/secret"
	"aloft/internal/telemetry"
)

// Config configures a fleet.
type Config struct {
	Journal store.Journal
	Agents  store.Agents
	Leases  store.Leases
	Owner   string // this server's name on its leases; unchanged by a restart on the same data
	Runtime machine.Runtime
	Limits  machine.Limits // limits of every machine
	Image   string         // image of machines whose environment specifies none
	Class   string         // isolation class for agents that do not choose one
	Network policy.Network // what machines may reach; the zero value means no network
	// ConnectionLogs has the log of each agent's network connections, by the
	// agent's id. If it is nil, only the machine's network gateway has a log.
	ConnectionLogs ConnectionLogs
	Gateway        Gateway
	// Registries are those from which the Docker of machines pulls with the
	// server's credentials; nil means none.
	Registries *pullthrough.Server
	// MayReach returns a fault unless the user may run agents on a repository.
	// If it is nil, everyone may use all repositories.
	MayReach func(ctx context.Context, userID int64, repoURL string) error
	// Dependencies are URL prefixes of repositories that other repositories may
	// fetch as dependencies. If it is nil, a repository may fetch only
	// repositories of its own owner.
	Dependencies []string
	// Environments determines the base of machines. If it is nil, all use
	// Image.
	Environments Environments
	SetUp        SetUp
	// Secret is 32 random bytes from which the tokens of machines are derived,
	// so that the tokens survive a restart without being stored.
	Secret []byte
	Author Author // author of the commits that are made for agents
	// Secrets returns values, by name, to redact from everything that comes out
	// of the agent's machine. It may be nil.
	Secrets func(agentID string) map[string]string
	// Variables returns the environment variables for the agent's machine, and
	// when they expire; the zero time means never. Secret variables are also
	// redacted. It may be nil.
	Variables func(ctx context.Context, a agent.Agent) (secret.Set, time.Time, error)
	// Identity signs tokens with which a program proves to other services which
	// agent it belongs to. If it is nil, programs get no tokens.
	Identity Identity
	// Room returns a fault if the disk is too full for more machines. It may be
	// nil.
	Room func() error
	// Artifacts stores files that outlive machines; nil stores none.
	Artifacts Artifacts
	Layers    Layers // saved disks; nil if disks cannot be saved
	// Idle is how long a machine may be unused before it is put to sleep; 0 means
	// forever.
	Idle time.Duration
	// DiskOnly puts machines to sleep without their processes, so that no
	// memory is written to disk.
	DiskOnly bool
	// Privacy reports whether a run is in privacy mode. If it is nil, no run
	// is.
	Privacy func(ctx context.Context, r agent.Run) (bool, error)
	// Retention returns how long an agent's machine may be unused before it is
	// removed with its disk. 0 or a nil function means forever.
	Retention func(ctx context.Context, a agent.Agent) (time.Duration, error)
	// TeamEgress returns the team's network restriction at a point in time. The
	// zero value or a nil function means none.
	TeamEgress func(context.Context, time.Time) (agent.Egress, error)
	// Narrowed returns the network restriction of a single agent. The zero value
	// or a nil function means none.
	Narrowed func(ctx context.Context, agentID string) (agent.Egress, error)
	// Spans makes machines record spans below their runs' spans, and exports
	// them. If it is nil, as in ghost mode, exec-daemon records no spans.
	Spans *telemetry.Telemetry
	// Embeddings computes embeddings for the code search of machines. It may be
	// nil.
	Embeddings Embeddings
	// Sandbox reports whether machines of a class can enforce the sandbox
	// policy for single commands. The answer depends only on the host's
	// configuration, never on a machine's claims. If it is nil, no machine can.
	Sandbox func(class string) bool
	// SandboxPolicy returns the sandbox policy for SandboxGit or an element of
	// Sandboxable. A nil policy, or a nil SandboxPolicy, means no sandbox.
	SandboxPolicy func(ctx context.Context, a agent.Agent, what string) (*sandbox.Policy, error)
	// Pulls finds the pull requests that agents start from. It may be nil.
	Pulls Pulls
	// Hooks returns the hooks that people have configured for an agent. It may
	// be nil.
	Hooks  func(ctx context.Context, a agent.Agent) (Hooks, error)
	Logger *slog.Logger
}

// Hooks are the hooks that people have configured for an agent.
type Hooks struct {
	Team, User []byte // hooks.json each; nil if there is none
	Email      string // e-mail address of the agent's owner; "" if unknown
}

// hooksOf returns the hooks configuration of an agent.
func (f *Fleet) hooksOf(ctx context.Context, a agent.Agent) (Hooks, error) {
	if f.Hooks == nil {
		return Hooks{}, nil
	}
	return f.Hooks(ctx, a)
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
}

// Pulls finds pull requests on forges.
type Pulls interface {
	// Found returns the pull request with the given URL, for an agent that will
	// work on it in the given repository.
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

// Embeddings computes embeddings of texts from machines.
type Embeddings interface {
	// Name returns the name of the model, which is not empty.
	Name() string
	// Handler returns the handler for the machine of one agent. hide redacts
	// secrets in a text.
	Handler(agentID string, hide func(string) string) http.Handler
}

// Fleet holds the machines of agents. Its methods are safe for concurrent use.
type Fleet struct {
	Config
	machines Connections
	given    given
	boots    chan struct{} // has a slot for each machine that may boot at the same time
	began    time.Time

	mu      sync.Mutex
	works   map[string]*Work // by agent
	forking map[string]bool  // layers of forks that are being created
}

// New returns a fleet. Maintain removes unused machines from it.
func New(c Config) *Fleet {
	return &Fleet{
		Config: c,
		boots:  make(chan struct{}, max(2, 2*runtime.NumCPU())),
		works:  map[string]*Work{},
		began:  time.Now(),
	}
}

// Maintain puts unused machines to sleep, and destroys those of deleted and archived
// agents, until ctx ends.
func (f *Fleet) Maintain(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { f.restAlways(ctx) })
	both.Go(func() { f.sweepAlways(ctx) })
	both.Wait()
}

// State returns the state folded from the agent's journal.
func (f *Fleet) State(ctx context.Context, agentID string) (*agent.State, error) {
	state := agent.Fold(agentID, nil)
	for {
		events, err := f.Journal.Read(ctx, agentID, state.Agent.Head, 1000)
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
