// Package api is the public REST API, /v1: agents, their runs, and the streams
// of both, in the shapes that existing clients of that API expect. The state of
// everything lives in the journal; a handler reads it, decides, appends to it
// and tells the scheduler. Nothing is remembered here between two requests.
//
// The routes are one table (routes.go). The mux, the OpenAPI description, the
// list of allowed methods and the tests of who may do what are all made from
// it. huma gives the schemas of the Go types and the description; reading,
// checking and answering requests is ours, because clients depend on the exact
// errors, and because a stream is no reply.
//
// It does not serve the dashboard, and knows nothing of machines or models
// beyond their names. It is over 2,000 lines because it has
// one file for each resource and the stream's projector.
package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/artifact"
	"aloft/internal/control/live"
	"aloft/internal/control/mcp"
	"aloft/internal/control/model"
	"aloft/internal/control/signin"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/policy"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Config is what the API needs. All fields but Logger, PublicURL, Ready,
// Metrics, DefaultModel, Tracer and those that may be nil must be set.
type Config struct {
	Journal  store.Journal
	Agents   store.Agents
	Accounts store.Accounts
	Saved    store.Environments // and Builds with it; nil keeps no environments
	Builds   store.Builds
	// Models are those that a client may name. DefaultModel is the id of the one
	// that is used where a request names none.
	Models       []model.Info
	DefaultModel string
	Limit        allowance.Amount // of each run; 0 of a kind is none
	Work         Work
	Live         *live.Board      // what models are writing now; nil shows nothing of it
	Secrets      Secrets          // nil where none are kept
	Environments Environments     // nil where there are none
	Outbound     Outbound         // nil where the server fetches nothing and tells nobody
	Deliveries   store.Deliveries // nil where there are no webhooks
	Replies      store.Replies    // nil where a repeated request is known by the journal alone
	Builder      Builder          // nil where nothing is built
	Pulls        Pulls            // nil where there is no forge
	Repositories Repositories     // nil where no credential can be asked
	SetUps       SetUps           // nil where machines cannot be saved
	Forks        Forks            // nil where no disks are saved
	Snapshots    store.Snapshots  // whose the saved disks are; nil knows of none
	Disks        Disks            // nil where none are saved
	Machines     Machines         // nil where nobody reaches into machines
	Tracer       trace.Tracer     // makes a span of each request that begins a run; nil makes none
	Artifacts    Artifacts        // nil where none are kept
	URLSecret    []byte           // with which addresses of artifacts are signed; needed with Artifacts
	Previews     Previews         // nil where there are none
	Identity     Identity         // nil where machines get no tokens
	MCP          *mcp.Servers     // nil where no MCP servers are kept
	AgentMCP     AgentMCP         // nil where agents have none; needs MCP
	SignIn       *signin.Desk     // nil where nobody signs in
	AuditLog     store.AuditLog   // nil where nothing is recorded
	Usage        store.Usage      // nil where nothing is counted
	Rules        store.Rules      // nil where none are kept
	Review       Review           // nil where all calls run
	PerMinute    int              // requests of each key; 0 is no limit
	// MachineRetention is for how long the server keeps machines that nobody uses
	// at the most; 0 is for ever.
	MachineRetention time.Duration
	AllowFile        bool          // file:// repositories may be used
	PublicURL        func() string // where a browser finds this server, without a final slash
	Logger           *slog.Logger
	Ready            func() error                          // nil once requests can be served
	Metrics          func(context.Context) ([]byte, error) // in Prometheus's text; nil where there are none
	Version          string                                // of the server
	// CheckHooks returns what is wrong with a hooks.json; nil checks nothing.
	CheckHooks func(text []byte) error
	// ProjectFile returns a file of an agent's repository at the commit that it
	// began with, nil where there is none. It may be nil.
	ProjectFile func(ctx context.Context, a agent.Agent, path string) ([]byte, error)
	// Ports returns those that the environment of an agent's machine names. It may
	// be nil.
	Ports func(ctx context.Context, a agent.Agent) ([]environment.Port, error)
}

// Repositories are those that the credentials of the server's configuration see.
type Repositories interface {
	// Repositories returns their URLs, sorted. It may take a while.
	Repositories(ctx context.Context) []string
}

// Artifacts are the files that outlive machines. Its methods are safe for
// concurrent use.
type Artifacts interface {
	// List returns an agent's, by name.
	List(ctx context.Context, agentID string) ([]artifact.File, error)
	// Open opens one; its error is a fault where there is none.
	Open(ctx context.Context, agentID, name string) (io.ReadSeekCloser, artifact.File, error)
	// Remove removes an agent's. One that has none is no error.
	Remove(ctx context.Context, agentID string) error
}

// Identity is what others need to verify the tokens of machines: the documents
// of OpenID Connect's discovery. Its methods are safe for concurrent use.
type Identity interface {
	Discovery() ([]byte, error)
	Keys() ([]byte, error)
}

// Work is what the API asks of the scheduler. Its methods are safe for
// concurrent use.
type Work interface {
	// Wake says that the agent's journal has a new run or a wish to cancel one.
	// It returns at once.
	Wake(agentID string)
	// Remove stops the agent's run and destroys its machine. An agent that has
	// neither is no error. It is called to archive and to delete, and again where
	// it has failed.
	Remove(ctx context.Context, agentID string) error
	// Forget removes what is kept of an agent that is being deleted.
	Forget(ctx context.Context, agentID string) error
	// Diff returns what the agent has changed since its starting ref.
	Diff(ctx context.Context, agentID string) (diff string, truncated bool, err error)
	// DialPort connects to a TCP port in the agent's machine. The connection has
	// CloseWrite.
	DialPort(ctx context.Context, agentID string, port uint16) (net.Conn, error)
	// Connections returns what the agent's machine has open to the outside, and
	// at most limit of those that ended after the numbered one.
	Connections(ctx context.Context, agentID string, after uint64, limit int) (policy.Connections, error)
}

// How long things may take, and how much they may hold.
const (
	heartbeatEvery = 15 * time.Second
	replyWithin    = 60 * time.Second // a request that is not a stream
	readWithin     = 5 * time.Minute  // a body; images over a slow line take a while
	writeWithin    = 30 * time.Second // one piece of a stream
	maxBody        = 110 << 20        // five images of 15 MiB in base64, and some words
	batch          = 100              // events of one read
)

type server struct {
	Config
	heartbeat time.Duration
	// draftsEvery is the least time between two looks at what a model is writing.
	draftsEvery time.Duration
	patience    time.Duration // with a reader of a stream
	allowed     time.Duration // between two looks whether a WebSocket may go on
	openAPI     document
	settling    sync.Mutex // held while settings change
	naming      sync.Mutex // held while environments are named
	answering   answering
	limiter     *limiter // of all requests, by key
	listing     *limiter // of lists of repositories, by user
	larges      larges
	compress    func(http.Handler) http.HandlerFunc
}

// API is the handler of the API, and what tidies up behind it.
type API struct {
	http.Handler // safe for concurrent use
	server       *server
}

// New returns an API.
func New(c Config) (*API, error) {
	s, err := newServer(c)
	if err != nil {
		return nil, err
	}
	return &API{s.handler(), s}, nil
}

// Run deletes agents that have been kept for as long as was settled, until ctx
// ends.
func (a *API) Run(ctx context.Context) error { return a.server.expire(ctx, expireEvery) }

func newServer(c Config) (*server, error) {
	if c.Journal == nil || c.Agents == nil || c.Accounts == nil || c.Work == nil {
		return nil, errors.New("api: store and scheduler are required")
	}
	if c.Artifacts != nil && len(c.URLSecret) == 0 {
		return nil, errors.New("api: the secret that signs artifact URLs is required")
	}
	if c.Tracer == nil {
		c.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if c.PublicURL == nil {
		c.PublicURL = func() string { return "http://localhost" }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	s := &server{Config: c, heartbeat: heartbeatEvery, draftsEvery: draftsEvery, patience: writeWithin, allowed: allowedEvery, limiter: newLimiter(c.PerMinute), listing: newLimiter(listsPerMinute)}
	if s.Environments == nil {
		s.Environments = s
	}
	var err error
	if s.compress, err = newCompressor(); err != nil {
		return nil, err
	}
	if s.openAPI, err = describe(s.routes(), c.Version); err != nil {
		return nil, fmt.Errorf("api: describe: %w", err)
	}
	return s, nil
}
