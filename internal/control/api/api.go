// Package api is the public REST API, /v1: agents, their runs, and the streams
// of both, in the shapes that existing clients expect. All state lives in the
// journal and the store. A handler reads it, decides, appends to the journal
// and wakes the scheduler. Handlers keep nothing in memory between requests
// except rate limits and locks.
//
// Each resource has a package of its own with its part of the table of routes.
// This package joins the parts (routes.go), and handles what all routes have in
// common. The mux, the OpenAPI description, the list of allowed methods and the
// authorization tests are derived from the table. huma generates the schemas and
// the description from Go types. Reading and validating requests and writing
// replies is our own code, because clients depend on the exact errors and
// because huma does not stream.
//
// The package does not serve the dashboard, and knows machines and models only
// by name.
package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"aloft/internal/control/api/accounts"
	"aloft/internal/control/api/agents"
	"aloft/internal/control/api/approvals"
	"aloft/internal/control/api/automations"
	"aloft/internal/control/api/connect"
	"aloft/internal/control/api/environments"
	"aloft/internal/control/api/machines"
	"aloft/internal/control/api/mcpservers"
	"aloft/internal/control/api/memories"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/pulls"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/api/stream"
	"aloft/internal/control/keylock"
	"aloft/internal/control/ledger"
	"aloft/internal/control/store"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Config is what the API needs: the dependencies that most resources use, those
// of each resource, and those of the server itself. Interfaces, functions and
// pointers are required, unless their comment says what nil means.
type Config struct {
	Shared       rest.Shared
	Models       modelchoice.Config
	Approvals    approvals.Config
	Pulls        pulls.Config
	MCPServers   mcpservers.Config
	Machines     machines.Config
	Environments environments.Config
	Accounts     accounts.Config
	Agents       agents.Config
	Stream       stream.Config
	Connect      connect.Config
	Memories     memories.Config
	Automations  automations.Config

	Replies   store.Replies // replies kept for repeated requests
	Inbox     store.Inbox   // inbound events
	Hooks     Hooks         `needed:"no"` // nil if there are no connections
	Identity  Identity
	Tracer    trace.Tracer                          `needed:"no"` // creates a span for each request that starts a run; nil creates none
	Ready     func() error                          `needed:"no"` // returns nil once requests can be served; nil means always
	Metrics   func(context.Context) ([]byte, error) `needed:"no"` // returns metrics in Prometheus's text format; nil turns metrics off
	PerMinute int                                   // requests per user; 0 means no limit
	Version   string                                // the server's version
	Tally     *ledger.Tally                         `needed:"no"` // counts streams, large requests and events; nil counts nothing
}

// Identity serves the OpenID Connect discovery documents with which others
// verify the tokens of machines. Its methods are safe for concurrent use.
type Identity interface {
	Discovery() ([]byte, error)
	Keys() ([]byte, error)
}

// server is the API: its resources, and the code that all routes share.
type server struct {
	*rest.Shared
	config       Config
	models       *modelchoice.API
	approvals    *approvals.API
	pulls        *pulls.API
	mcpservers   *mcpservers.API
	machines     *machines.API
	environments *environments.API
	accounts     *accounts.API
	agents       *agents.API
	stream       *stream.API
	connect      *connect.API
	memories     *memories.API
	automations  *automations.API

	allowed   time.Duration // interval of re-authorizing an open WebSocket
	openAPI   document
	answering keylock.Locks[[sha256.Size]byte] // locks of idempotent requests in progress: a repetition waits for the first request
	limiter   *rest.Limiter                    // for all requests, per user
	larges    larges
	progress  progress
	receiving receiving
	compress  func(http.Handler) http.HandlerFunc
}

// API is the HTTP handler of the API, with its cleanup loop. It also has the
// operations that the server itself performs by the API's rules.
type API struct {
	http.Handler // safe for concurrent use
	Agents       *agents.API
	Models       *modelchoice.API
	server       *server
}

// New returns an API.
func New(c Config) (*API, error) {
	s, err := newServer(c)
	if err != nil {
		return nil, err
	}
	return &API{s.handler(), s.agents, s.models, s}, nil
}

// Run deletes agents whose retention period has passed, until ctx ends.
func (a *API) Run(ctx context.Context) error { return a.server.expire(ctx, expireEvery) }

func newServer(c Config) (*server, error) {
	if c.Shared.Logger == nil {
		c.Shared.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Tracer == nil {
		c.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if c.Ready == nil {
		c.Ready = func() error { return nil }
	}
	shared := &c.Shared
	s := &server{Shared: shared, config: c, allowed: allowedEvery, limiter: rest.NewLimiter(c.PerMinute)}
	s.models = modelchoice.New(shared, c.Models)
	s.approvals = approvals.New(shared, c.Approvals)
	s.pulls = pulls.New(shared, c.Pulls)
	s.mcpservers = mcpservers.New(shared, c.MCPServers)
	s.machines = machines.New(shared, c.Machines)
	s.environments = environments.New(shared, c.Environments)
	s.agents = agents.New(shared, c.Agents, agents.Parts{Models: s.models, Approvals: s.approvals, MCPServers: s.mcpservers, Pulls: s.pulls})
	s.stream = stream.New(shared, c.Stream, s.agents)
	s.connect = connect.New(shared, c.Connect)
	s.memories = memories.New(shared, c.Memories)
	s.automations = automations.New(shared, c.Automations)
	if c.Accounts.Environments == nil {
		c.Accounts.Environments = s.environments
	}
	s.accounts = accounts.New(shared, c.Accounts, s.models)
	if err := missing(reflect.ValueOf(c), "Config"); err != nil {
		return nil, err
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

// missing returns an error that names a nil field of the configuration, unless
// its field has the tag needed:"no".
func missing(c reflect.Value, name string) error {
	switch c.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Func:
		if c.IsNil() {
			return errors.New("api: " + name + " is required")
		}
	case reflect.Struct:
		for f, v := range c.Fields() {
			if f.IsExported() && f.Tag.Get("needed") != "no" {
				if err := missing(v, name+"."+f.Name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
