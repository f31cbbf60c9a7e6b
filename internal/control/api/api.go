// Package api is the public REST API, /v1: agents, their runs, and the streams
// of both, in the shapes that existing clients expect. All state lives in the
// journal and the store. A handler reads it, decides, appends to the journal
// and wakes the scheduler. Handlers keep nothing in memory between requests
// except rate limits and locks.
//
// The routes are one table (routes.go). The mux, the OpenAPI description, the
// list of allowed methods and the authorization tests are derived from it. huma
// generates the schemas and the description from Go types. Reading and
// validating requests and writing replies is our own code, because clients
// depend on the exact errors and because huma does not stream.
//
// The package does not serve the dashboard, and knows machines and models only
// by name. It is over 2,000 lines because it has one file for each resource,
// and the projector that turns a journal into a stream.
package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
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

// Config is what the API needs. Every field is required except Logger,
// PublicURL, Ready, Metrics, DefaultModel, Tracer and those that say what nil
// means.
type Config struct {
	Journal  store.Journal
	Agents   store.Agents
	Accounts store.Accounts
	Saved    store.Environments // needs Builds; nil turns saved environments off
	Builds   store.Builds
	// Models are the models that a client may name. DefaultModel is the id of
	// the model for requests that name none.
	Models       []model.Info
	DefaultModel string
	Limit        allowance.Amount // for each run; 0 means no limit of that kind
	Work         Work
	Live         *live.Board      // what models are writing now; nil shows no partial calls
	Secrets      Secrets          // nil turns secrets off
	Environments Environments     // nil turns environment authorization off
	Outbound     Outbound         // nil if the server makes no outbound requests
	Deliveries   store.Deliveries // nil turns webhooks off
	Replies      store.Replies    // nil if only the journal detects repeated requests
	Hooks        Hooks            // nil if there are no connections
	Inbox        store.Inbox      // nil lists no inbound events
	Builder      Builder          // nil turns environment builds off
	Pulls        Pulls            // nil if no forge is configured
	Repositories Repositories     // nil if no credential can list repositories
	SetUps       SetUps           // nil if machines cannot be saved as environments
	Forks        Forks            // nil if forks do not copy disks
	Snapshots    store.Snapshots  // records of saved disks and their owners; nil turns snapshots off
	Disks        Disks            // nil if no disks are saved
	Machines     Machines         // nil if machines cannot be reached
	Tracer       trace.Tracer     // creates a span for each request that starts a run; nil creates none
	Artifacts    Artifacts        // nil turns artifacts off
	URLSecret    []byte           // signs artifact URLs; required with Artifacts
	Previews     Previews         // nil turns previews off
	Identity     Identity         // nil if machines get no identity tokens
	MCP          *mcp.Servers     // nil turns MCP servers off
	AgentMCP     AgentMCP         // nil if agents cannot use MCP servers; requires MCP
	SignIn       *signin.Desk     // nil turns sign-in off
	AuditLog     store.AuditLog   // nil turns the audit log off
	Usage        store.Usage      // nil turns usage reports off
	Rules        store.Rules      // nil turns rules and settings off
	Review       Review           // nil runs every tool call without approval
	PerMinute    int              // requests for each key; 0 means no limit
	Quotas       Quotas           // of each user; the zero value means none
	// MachineRetention is the longest time for which the server keeps an idle
	// machine; 0 means for ever.
	MachineRetention time.Duration
	AllowFile        bool           // allows file:// repositories
	TrustedProxies   []netip.Prefix // whose X-Forwarded-For says where a request came from; none by default
	PublicURL        func() string  // the server's URL for browsers, without a trailing slash
	Logger           *slog.Logger
	Ready            func() error                          // returns nil once requests can be served
	Metrics          func(context.Context) ([]byte, error) // in Prometheus's text format; nil if there are none
	Version          string                                // of the server
	// CheckHooks returns an error if text is not a valid hooks.json. If
	// CheckHooks is nil, hooks are not checked.
	CheckHooks func(text []byte) error
	// ProjectFile returns a file of an agent's repository at the commit that
	// the agent started from, or nil if the file does not exist. The field may
	// be nil.
	ProjectFile func(ctx context.Context, a agent.Agent, path string) ([]byte, error)
	// Ports returns the ports that the environment of an agent's machine names.
	// The field may be nil.
	Ports func(ctx context.Context, a agent.Agent) ([]environment.Port, error)
}

// Repositories lists the repositories that the server's configured credentials
// can access.
type Repositories interface {
	// Repositories returns their URLs, sorted. It may query forges, so it may
	// be slow.
	Repositories(ctx context.Context) []string
}

// Artifacts stores the files that outlive machines. Its methods are safe for
// concurrent use.
type Artifacts interface {
	// List returns an agent's artifacts, sorted by name.
	List(ctx context.Context, agentID string) ([]artifact.File, error)
	// Open opens an artifact. If it does not exist, the error is a fault.
	Open(ctx context.Context, agentID, name string) (io.ReadSeekCloser, artifact.File, error)
	// Remove removes all artifacts of an agent. It succeeds if the agent has
	// none.
	Remove(ctx context.Context, agentID string) error
}

// Identity serves the OpenID Connect discovery documents with which others
// verify the tokens of machines. Its methods are safe for concurrent use.
type Identity interface {
	Discovery() ([]byte, error)
	Keys() ([]byte, error)
}

// Work is the part of the scheduler that the API uses. Its methods are safe for
// concurrent use.
type Work interface {
	// Wake tells the scheduler that the agent's journal has a new run or a
	// request to cancel one. It returns at once.
	Wake(agentID string)
	// Remove stops the agent's run and destroys its machine. It succeeds if the
	// agent has neither. The API calls it to archive or delete an agent, and
	// again after a failure.
	Remove(ctx context.Context, agentID string) error
	// Forget removes what the scheduler stores for an agent that is being
	// deleted.
	Forget(ctx context.Context, agentID string) error
	// Diff returns the agent's changes since its starting ref.
	Diff(ctx context.Context, agentID string) (diff string, truncated bool, err error)
	// DialPort connects to a TCP port in the agent's machine. The returned
	// connection has a CloseWrite method.
	DialPort(ctx context.Context, agentID string, port uint16) (net.Conn, error)
	// Connections returns the machine's open outbound connections, and at most
	// limit closed ones whose number is greater than after.
	Connections(ctx context.Context, agentID string, after uint64, limit int) (policy.Connections, error)
}

// Timeouts and size limits.
const (
	heartbeatEvery = 15 * time.Second
	replyWithin    = 60 * time.Second // for a request that is not a stream
	readWithin     = 5 * time.Minute  // for a body; images over a slow line take a while
	writeWithin    = 30 * time.Second // for one piece of a stream
	maxBody        = 110 << 20        // five images of 15 MiB in base64, and some text
	batch          = 100              // events per read
)

type server struct {
	Config
	heartbeat time.Duration
	// draftsEvery is the minimum time between two updates of what a model is
	// writing.
	draftsEvery time.Duration
	patience    time.Duration // how long a stream waits for a slow reader
	allowed     time.Duration // how often an open WebSocket is re-authorized
	openAPI     document
	settling    sync.Mutex // held while settings change
	naming      sync.Mutex // held while environments are named
	answering   answering
	limiter     *limiter // for all requests, by key
	listing     *limiter // for lists of repositories, by user
	larges      larges
	receiving   chan struct{} // has an element for each event that is being received
	compress    func(http.Handler) http.HandlerFunc
}

// API is the HTTP handler of the API, together with its cleanup loop.
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

// Run deletes agents whose retention period has passed, until ctx ends.
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
	s := &server{Config: c, heartbeat: heartbeatEvery, draftsEvery: draftsEvery, patience: writeWithin, allowed: allowedEvery, receiving: make(chan struct{}, maxReceiving), limiter: newLimiter(c.PerMinute), listing: newLimiter(listsPerMinute)}
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
