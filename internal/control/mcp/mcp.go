// Package mcp is the control plane's part of MCP: it stores the servers
// configured by the team and its users, signs users in to servers, and talks to
// HTTP servers, so that their credentials never enter a machine. Responses of
// such servers are untrusted: the package limits their size and duration,
// redacts them, and never treats them as instructions.
package mcp

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/keylock"
	"aloft/internal/control/outbound"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/redact"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Config holds the package's dependencies. All fields are required.
type Config struct {
	Vault Vault
	Reach *outbound.Client // HTTP client for servers configured by users
	// Foreign returns the client for servers configured by a repository, for an
	// agent with the given network policy. The client can reach only hosts that
	// the agent's machine can reach. It returns nil if the machine has no
	// network.
	Foreign   func(e agent.Egress) (*outbound.Client, error)
	PublicURL func() string // Aloft's address for browsers, without a trailing slash
	Version   string        // Aloft's version
}

// Servers manages the MCP servers. Its methods are safe for concurrent use.
type Servers struct {
	Config
	adding   sync.Mutex
	renewing keylock.Locks[string] // serializes renewals per sign-in
	asked    challenges
}

// New returns the servers for the configuration.
func New(c Config) (*Servers, error) {
	if c.Vault == nil || c.Reach == nil || c.Foreign == nil || c.PublicURL == nil {
		return nil, errors.New("mcp: incomplete configuration")
	}
	return &Servers{Config: c}, nil
}

// tokenKnown is how long a session uses a token before it checks for a newer
// one. It is shorter than refreshBefore.
const tokenKnown = refreshBefore / 2

// User is the user on whose behalf a server is used.
type User struct {
	ID int64
	// Repository is the URL of the repository that configures the server; "" for
	// a server configured by people.
	Repository string
}

// targetOf returns a target without a user's token. The returned secrets are
// the values sent to the server, to redact from its responses.
func targetOf(server mcp.Server) (Target, *secrets) {
	hidden := &secrets{values: map[string]string{}}
	for name, value := range server.Headers {
		hidden.values["header "+name] = value
	}
	if server.Auth != nil {
		hidden.values["client secret"] = server.Auth.ClientSecret
	}
	return Target{URL: server.URL, SSE: server.Type == mcp.SSE, Either: server.Type == mcp.HTTP, Header: maps.Clone(server.Headers)}, hidden
}

// target returns the server's target for the user, and the secrets to redact.
func (s *Servers) target(server mcp.Server, user User, hc *http.Client) (Target, *secrets) {
	t, hidden := targetOf(server)
	key := s.signInKey(server, user)
	t.Refused = func(u *Unauthorized) { s.asked.set(user.ID, key, u) }
	var mu sync.Mutex
	var known string
	var at time.Time
	t.Token = func(ctx context.Context, refused string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) < tokenKnown && (refused == "" || refused != known) {
			return known, nil
		}
		token, err := s.token(ctx, user, key, refused, hc)
		if err == nil {
			known, at = token, time.Now()
		}
		if token != "" {
			hidden.add("token", token)
		}
		return token, err
	}
	return t, hidden
}

func (s *Servers) signInKey(server mcp.Server, user User) string {
	return signInKey(user.Repository, server.URL, clientOf(server).ID)
}

func clientOf(server mcp.Server) Client {
	if server.Auth == nil {
		return Client{}
	}
	return Client{ID: server.Auth.ClientID, Secret: server.Auth.ClientSecret, Scopes: server.Auth.Scopes}
}

// secrets are values sent to a server, which the server might echo.
type secrets struct {
	mu     sync.Mutex
	values map[string]string
	made   *redact.Redactor
}

func (s *secrets) add(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[name] != value {
		s.values[name], s.made = value, nil
	}
}

func (s *secrets) redactor() *redact.Redactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = redact.New(s.values)
	}
	return s.made
}

// open opens a session with the server for the user.
func (s *Servers) open(ctx context.Context, reach *outbound.Client, server mcp.Server, user User) (*session, *secrets, error) {
	hc := reach.Converse(maxReply)
	t, hidden := s.target(server, user, hc)
	opened, err := open(ctx, hc, t, s.Version)
	return opened, hidden, err
}

// Test connects to the server and lists its tools. Its error is a fault.
func (s *Servers) Test(ctx context.Context, server mcp.Server, user User) (mcp.Listing, error) {
	if !server.Remote() {
		return mcp.Listing{}, fault.Invalid("the server runs in machines, so it cannot be tested without one").Named("mcp_stdio").
			Hint("start an agent, and look at `aloft agent show`")
	}
	if strings.Contains(server.URL, "${") {
		return mcp.Listing{}, fault.Invalid("its address contains a variable, which only an agent's secrets can fill in").Named("mcp_variable").
			Hint("start an agent, and look at `aloft agent show`")
	}
	opened, hidden, err := s.open(ctx, s.Reach, server, user)
	if err != nil {
		return mcp.Listing{}, Failure(err, hidden.redactor())
	}
	defer opened.close()
	l, err := opened.list(ctx, server, hidden.redactor())
	if err != nil {
		return l, Failure(err, hidden.redactor())
	}
	return l, nil
}

// list requests a server's tools.
func (s *session) list(ctx context.Context, server mcp.Server, hide *redact.Redactor) (mcp.Listing, error) {
	hello := s.InitializeResult()
	var found []*sdk.Tool
	if hello.Capabilities != nil && hello.Capabilities.Tools != nil {
		var err error
		found, _, err = ask(ctx, listWithin, func(ctx context.Context) ([]*sdk.Tool, error) {
			return pages(ctx, mcp.MaxTools+1, func(ctx context.Context, cursor string) ([]*sdk.Tool, string, error) {
				page, err := s.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
				if err != nil {
					return nil, "", err
				}
				return page.Tools, page.NextCursor, nil
			})
		})
		if err != nil {
			return mcp.Listing{}, err
		}
	}
	tools := make([]mcp.Tool, 0, len(found))
	for _, t := range found {
		if t != nil {
			tools = append(tools, mcp.Tool{Name: t.Name, Description: hide.String(t.Description), Schema: hide.Bytes(object(t.InputSchema))})
		}
	}
	return mcp.Admit(server, hide.String(hello.Instructions), tools), nil
}

// Fault codes for servers.
const (
	CodeSignIn  = "mcp_sign_in_needed"
	CodeNoToken = "mcp_sign_in_failed" // the provider returned no token
	CodeFailed  = "mcp_failed"
	signInAgain = "sign in with `aloft mcp login`, or in the dashboard: Settings, MCP servers"
)

// Failure returns a fault that explains to a user why a server cannot be used.
func Failure(err error, hide *redact.Redactor) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if u, ok := errors.AsType[*Unauthorized](err); ok {
		if u.Status == http.StatusForbidden {
			return fault.Denied("the server refuses its credentials with status 403").Named(CodeSignIn).Hint("sign in as somebody who may use it, or change its headers")
		}
		return fault.Denied("the server requires a sign-in").Named(CodeSignIn).Hint("%s", signInAgain)
	}
	return fault.Unavailable("%s", hide.String(err.Error())).Named(CodeFailed).Hint("check its address, and that it runs")
}
