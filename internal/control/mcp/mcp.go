// Package mcp is the control plane's half of MCP: it keeps the servers that the
// team and its people name, signs people in to those that ask for it, and speaks
// with those that are reached by HTTP, so that what they are authorized by enters
// no machine. What such a server says is foreign: it is bounded in size and time,
// freed of the secrets that it was sent, and never an instruction to Aloft.
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
	"aloft/internal/control/outbound"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/redact"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Config is what the package works with. All of it must be set.
type Config struct {
	Vault Vault
	Reach *outbound.Client // how servers that people name are reached
	// Foreign returns how servers that a repository names are reached, for an agent
	// with such a way out: no further than its machine. It is nil where that has no
	// network.
	Foreign   func(e agent.Egress) (*outbound.Client, error)
	PublicURL func() string // where a browser finds Aloft, without a final slash
	Version   string        // of Aloft
}

// Servers knows the MCP servers. Its methods are safe for concurrent use.
type Servers struct {
	Config
	adding   sync.Mutex
	renewing keyed // one at a time of each sign-in
}

// New returns the servers over what is kept.
func New(c Config) (*Servers, error) {
	if c.Vault == nil || c.Reach == nil || c.Foreign == nil || c.PublicURL == nil {
		return nil, errors.New("mcp: something of the configuration is missing")
	}
	return &Servers{Config: c}, nil
}

// tokenKnown is for how long a conversation goes on with a token before it looks
// again: less than the time before its end at which one is renewed.
const tokenKnown = refreshBefore / 2

// User is for whom a server is spoken to.
type User struct {
	ID int64
	// Repository is the URL of the one that names the server; "" where people do.
	Repository string
}

// targetOf is how the server is spoken to for nobody. What is returned besides
// takes everything out of its words that it was sent and nobody may see.
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

// target is how the server is spoken to for the user, beside what is hidden.
func (s *Servers) target(server mcp.Server, user User, hc *http.Client) (Target, *secrets) {
	t, hidden := targetOf(server)
	key := s.signInKey(server, user)
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

// secrets are what a server was sent and might say again.
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

// open begins a session with the server for the user.
func (s *Servers) open(ctx context.Context, reach *outbound.Client, server mcp.Server, user User) (*session, *secrets, error) {
	hc := reach.Converse(maxReply)
	t, hidden := s.target(server, user, hc)
	opened, err := open(ctx, hc, t, s.Version)
	return opened, hidden, err
}

// Test connects to the server and lists what it offers. Its error is a fault.
func (s *Servers) Test(ctx context.Context, server mcp.Server, user User) (mcp.Listing, error) {
	if !server.Remote() {
		return mcp.Listing{}, fault.Invalid("the server runs in machines: it is not tried without one").Named("mcp_stdio").
			Hint("start an agent, and look at `aloft agent show`")
	}
	if strings.Contains(server.URL, "${") {
		return mcp.Listing{}, fault.Invalid("its address holds a variable, which an agent's secrets are to fill in").Named("mcp_variable").
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

// list asks a server for its tools.
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

// Codes of the faults of servers.
const (
	CodeSignIn  = "mcp_sign_in_needed"
	CodeNoToken = "mcp_sign_in_failed" // the provider gave none
	CodeFailed  = "mcp_failed"
	signInAgain = "sign in with `aloft mcp login`, or in the dashboard: Settings, MCP servers"
)

// Failure says in a person's words why a server cannot be used.
func Failure(err error, hide *redact.Redactor) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if u, ok := errors.AsType[*Unauthorized](err); ok {
		if u.Status == http.StatusForbidden {
			return fault.Denied("the server refuses what it is authorized by: it answers 403").Named(CodeSignIn).Hint("sign in as somebody who may use it, or change its headers")
		}
		return fault.Denied("the server wants a sign-in").Named(CodeSignIn).Hint("%s", signInAgain)
	}
	return fault.Unavailable("%s", hide.String(err.Error())).Named(CodeFailed).Hint("check its address, and that it runs")
}

// keyed are locks by name.
type keyed struct {
	mu    sync.Mutex
	locks map[string]*held
}

type held struct {
	sync.Mutex
	users int
}

func (k *keyed) lock(name string) (unlock func()) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[string]*held{}
	}
	h := k.locks[name]
	if h == nil {
		h = &held{}
		k.locks[name] = h
	}
	h.users++
	k.mu.Unlock()
	h.Lock()
	return func() {
		h.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(k.locks, name)
		}
	}
}
