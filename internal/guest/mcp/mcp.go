// Package mcp runs MCP servers as programs in the machine, and calls them. A
// server is a child of exec-daemon, runs as the agent's user, and runs in the
// sandbox if a policy asks for that. Servers are untrusted: the size of their
// output is limited, their failures do not affect others, and stopping a server
// kills everything that it started. The caller selects the servers to run; this
// package does not read mcp.json.
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

// Around wraps a command line in a sandbox.
type Around func(argv ...string) ([]string, error)

// Config configures a Manager. Workspace is required.
type Config struct {
	Workspace string          // absolute; the servers' working directory
	Home      string          // value of ${userHome}
	Environ   func() []string // the machine's environment, for servers and ${env:…}
	LogDir    string          // folder for the servers' stderr; if empty, only its end is kept in memory
	Version   string          // version of exec-daemon
	Secrets   func() *redact.Redactor
	Log       *slog.Logger

	// StartWithin is how long a server may take until its tools are listed.
	// Some download a package first. The default is 2 minutes.
	StartWithin time.Duration
	// CallWithin is the timeout of a call; 10 minutes by default.
	CallWithin time.Duration
	// Backoff is the delay before a server that has exited is restarted. It
	// doubles with each restart; it starts at 1 second by default.
	Backoff time.Duration
}

// maxStarts is how many times in a row to start a server that exits before it is called.
// After that, a call starts it once more.
const maxStarts = 5

// Manager runs servers. Its methods are safe for concurrent use. The caller
// must Close it.
type Manager struct {
	Config
	mu      sync.Mutex
	servers map[string]*server // by lower-case name
	others  []mcp.Listing      // servers that the control plane connects to
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

// Use runs exactly these servers. A server that is already running keeps
// running, unless its configuration, its variables' values or its sandbox have
// changed. Remote servers are ignored.
func (m *Manager) Use(servers []mcp.Server, around Around, policy string) {
	env := m.Environ()
	var removed []*server
	m.mu.Lock()
	defer func() {
		m.mu.Unlock()
		for _, s := range removed {
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
			removed = append(removed, old)
		}
		m.servers[name] = m.begin(conf, key, env, around)
	}
	for name, s := range m.servers {
		if !want[name] {
			delete(m.servers, name)
			removed = append(removed, s)
		}
	}
}

// keyOf returns a key that changes when a server has to be restarted.
func keyOf(s mcp.Server, env []string, policy string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	expanded, err := s.Expand(variables(env, "", ""))
	if err != nil {
		return policy + "\x00" + string(text) + "\x00" + err.Error()
	}
	values, _ := json.Marshal(expanded) // cannot fail either
	return policy + "\x00" + string(text) + "\x00" + string(values)
}

// SetElsewhere sets the servers that the control plane connects to. They are
// listed here, but calls to them are refused, because only the control plane
// can make them.
func (m *Manager) SetElsewhere(listings []mcp.Listing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.others = listings
}

func (m *Manager) elsewhere(name string) (mcp.Listing, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.others {
		if mcp.SameName(l.Server, name) {
			return l, true
		}
	}
	return mcp.Listing{}, false
}

// List returns the listings of the servers, sorted by name. It waits for
// servers that are starting, until ctx ends or wait has passed.
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

// find returns the server with that name. The error is for the model.
func (m *Manager) find(name string) (*server, error) {
	m.mu.Lock()
	s := m.servers[strings.ToLower(name)]
	m.mu.Unlock()
	if s != nil {
		return s, nil
	}
	if l, ok := m.elsewhere(name); ok {
		return nil, fmt.Errorf("the MCP server %s does not run in this machine: the control plane connects to it", l.Server)
	}
	var names []string
	for _, s := range m.all() {
		names = append(names, s.conf.Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no MCP server %q: this machine runs none", mcp.Clean(name, 80))
	}
	return nil, fmt.Errorf("there is no MCP server %q; available: %s", mcp.Clean(name, 80), strings.Join(names, ", "))
}

// Describe returns the listing of one server. It waits for the server to start.
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

// Resources lists the resources of a server, or of all servers if name is
// empty. Servers that fail are named in the error; the result still has the
// resources of the others.
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

// Close stops all servers and kills everything that they started.
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

// variables returns the values for ${…} in the configuration.
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
