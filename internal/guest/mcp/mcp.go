// Package mcp runs the MCP servers that are programs in the machine, and speaks
// with them. A server is a child of exec-daemon, as the agent's user, in the sandbox
// where a policy asks for one. It is hostile by assumption: what it says is bounded
// in size, its failures are its own, and it ends with everything that it started.
// Which servers there are is the caller's to say; nothing here reads mcp.json.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"aloft/internal/mcp"
	"aloft/internal/redact"
)

// Around puts a command line into a sandbox.
type Around func(argv ...string) ([]string, error)

// Config is what a Manager works with. Workspace is needed.
type Config struct {
	Workspace string          // absolute; servers start here
	Home      string          // of ${userHome}
	Environ   func() []string // what the machine's commands see; servers and ${env:…} get it
	LogDir    string          // for what servers say on stderr; without it, only the last of it is kept
	Version   string          // of exec-daemon
	Secrets   func() *redact.Redactor
	Log       *slog.Logger

	// StartWithin is how long a server may take until its tools are known, which a
	// package that is fetched first makes long; 2 minutes unless given.
	StartWithin time.Duration
	// CallWithin bounds a call; 10 minutes unless given.
	CallWithin time.Duration
	// Backoff is how long a server that ended is left alone before it is started
	// again, the first time; 1 second unless given, and twice as long each time.
	Backoff time.Duration
}

// maxStarts is how often in a row a server is started that ends without having
// been called; a call of it starts it once more.
const maxStarts = 5

// Manager runs servers. Its methods are safe for concurrent use. Close it when done.
type Manager struct {
	Config
	mu      sync.Mutex
	servers map[string]*server // by name in lower case
	others  []mcp.Listing      // that the control plane speaks with
	closed  bool
}

// New returns a manager without servers.
func New(c Config) *Manager {
	c.StartWithin = cmp.Or(c.StartWithin, 2*time.Minute)
	c.CallWithin = cmp.Or(c.CallWithin, 10*time.Minute)
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Environ == nil {
		c.Environ = func() []string { return nil }
	}
	return &Manager{Config: c, servers: map[string]*server{}}
}

// Use has these servers run, and no others. One that runs already goes on, unless
// it, its variables' values or its sandbox are other than they were. Remote servers
// are passed over.
func (m *Manager) Use(servers []mcp.Server, around Around, policy string) {
	env := m.Environ()
	var gone []*server
	m.mu.Lock()
	defer func() {
		m.mu.Unlock()
		for _, s := range gone {
			s.stop()
		}
	}()
	if m.closed {
		return
	}
	want := map[string]bool{}
	for _, conf := range servers {
		if conf.Remote() || len(want) == mcp.MaxServers {
			continue
		}
		name := strings.ToLower(conf.Name)
		want[name] = true
		key := keyOf(conf, env, policy)
		if old := m.servers[name]; old != nil {
			if old.key == key {
				continue
			}
			gone = append(gone, old)
		}
		m.servers[name] = m.begin(conf, key, env, around)
	}
	for name, s := range m.servers {
		if !want[name] {
			delete(m.servers, name)
			gone = append(gone, s)
		}
	}
}

// keyOf changes when a server has to be started anew.
func keyOf(s mcp.Server, env []string, policy string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	expanded, err := s.Expand(variables(env, "", ""))
	if err != nil {
		return policy + "\x00" + string(text) + "\x00" + err.Error()
	}
	values, _ := json.Marshal(expanded) // as above
	return policy + "\x00" + string(text) + "\x00" + string(values)
}

// Elsewhere says what is offered by servers that the control plane speaks with.
// They are told of here, and their calls are refused: they have not come to where
// they are answered.
func (m *Manager) Elsewhere(told []mcp.Listing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.others = told
}

func (m *Manager) elsewhere(name string) (mcp.Listing, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.others {
		if mcp.Same(l.Server, name) {
			return l, true
		}
	}
	return mcp.Listing{}, false
}

// List says what the servers offer, by name. It waits for those that start, until
// ctx ends or wait is over.
func (m *Manager) List(ctx context.Context, wait time.Duration) []mcp.Listing {
	all := m.all()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	listings := make([]mcp.Listing, 0, len(all))
	for _, s := range all {
		listings = append(listings, s.listing(ctx))
	}
	return listings
}

func (m *Manager) all() []*server {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*server, 0, len(m.servers))
	for _, s := range m.servers {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *server) int { return strings.Compare(a.conf.Name, b.conf.Name) })
	return all
}

// find returns the server of that name. The error is for the model.
func (m *Manager) find(name string) (*server, error) {
	m.mu.Lock()
	s := m.servers[strings.ToLower(name)]
	m.mu.Unlock()
	if s != nil {
		return s, nil
	}
	if l, ok := m.elsewhere(name); ok {
		return nil, fmt.Errorf("the MCP server %s is not in this machine: the control plane speaks with it", l.Server)
	}
	var names []string
	for _, s := range m.all() {
		names = append(names, s.conf.Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no MCP server %q: this machine runs none", mcp.Clean(name, 80))
	}
	return nil, fmt.Errorf("there is no MCP server %q; there are %s", mcp.Clean(name, 80), strings.Join(names, ", "))
}

// Describe says what one server offers, waiting for it to start.
func (m *Manager) Describe(ctx context.Context, name string) (mcp.Listing, error) {
	if l, ok := m.elsewhere(name); ok {
		return l, nil
	}
	s, err := m.find(name)
	if err != nil {
		return mcp.Listing{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, m.StartWithin)
	defer cancel()
	return s.listing(ctx), nil
}

// Call calls a tool. The error is for the model.
func (m *Manager) Call(ctx context.Context, name, tool string, args json.RawMessage) (mcp.Result, error) {
	s, err := m.find(name)
	if err != nil {
		return mcp.Result{}, err
	}
	return s.call(ctx, tool, args)
}

// Resources lists what a server has to read; of all where name is empty. Servers
// that cannot be asked are told of in the error, beside what the others have.
func (m *Manager) Resources(ctx context.Context, name string) ([]mcp.Resource, error) {
	servers := m.all()
	if name != "" {
		s, err := m.find(name)
		if err != nil {
			return nil, err
		}
		servers = []*server{s}
	}
	var out []mcp.Resource
	var failed []string
	for _, s := range servers {
		resources, err := s.resources(ctx)
		if err != nil {
			failed = append(failed, err.Error())
		}
		out = append(out, resources...)
	}
	if len(failed) > 0 {
		return out, fmt.Errorf("%s", strings.Join(failed, "; "))
	}
	return out, nil
}

// Read reads a resource of a server. The error is for the model.
func (m *Manager) Read(ctx context.Context, name, uri string) ([]mcp.Content, error) {
	s, err := m.find(name)
	if err != nil {
		return nil, err
	}
	return s.read(ctx, uri)
}

// Close ends all servers and what they started.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	all := m.servers
	m.servers = map[string]*server{}
	m.mu.Unlock()
	var ending sync.WaitGroup
	for _, s := range all {
		ending.Go(s.stop)
	}
	ending.Wait()
	return nil
}

// variables are what stands for ${…} here.
func variables(env []string, home, workspace string) mcp.Variables {
	return mcp.Variables{UserHome: home, Workspace: workspace, Env: func(name string) (string, bool) {
		for i := len(env) - 1; i >= 0; i-- {
			if value, ok := strings.CutPrefix(env[i], name+"="); ok {
				return value, true
			}
		}
		return "", false
	}}
}
