package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/plugin"
	"aloft/internal/secret"
)

// workspace is the repository's folder in a machine. It replaces
// ${workspaceFolder} in the configuration of remote servers.
const workspace = "/workspace"

// idleFor is how long unused connections are kept.
const idleFor = 10 * time.Minute

// AgentsConfig holds the dependencies of [Agents]. All fields are required.
type AgentsConfig struct {
	Servers *Servers
	// File returns a file of the agent's repository at a commit, or nil if it
	// does not exist.
	File func(ctx context.Context, a agent.Agent, commit, path string) ([]byte, error)
	// Plugins returns the folders of the plugins of the agent's repository at a commit;
	// nil means there are none.
	Plugins func(ctx context.Context, a agent.Agent, commit string) ([]string, error)
	// Environment returns the agent's environment.json on the default branch at
	// the agent's creation.
	Environment func(ctx context.Context, a agent.Agent) (environment.Environment, error)
	// Variables returns the variables of the agent's machine. A server's
	// configuration can refer only to these.
	Variables func(ctx context.Context, a agent.Agent) (secret.Set, time.Time, error)
}

// Agents determines the MCP servers of each agent and talks to the remote ones.
// Its methods are safe for concurrent use.
type Agents struct {
	AgentsConfig
	mu   sync.Mutex
	busy map[string]*engaged // by agent
}

// engaged is an agent's [Party], with the number of its current users.
type engaged struct {
	*Party
	egress string // identifies the network policy for the repository's servers
	users  int
	idle   *time.Timer
}

// NewAgents returns an Agents. Close it when the server ends.
func NewAgents(c AgentsConfig) *Agents {
	return &Agents{AgentsConfig: c, busy: map[string]*engaged{}}
}

// Close closes all connections.
func (g *Agents) Close() {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.busy))
	clear(g.busy)
	g.mu.Unlock()
	for _, e := range all {
		e.Close()
	}
}

// party returns the agent's [Party], which stays open until done is called.
func (g *Agents) party(s *agent.State) (e *engaged, done func(), err error) {
	egress, err := json.Marshal(s.Egress)
	if err != nil {
		return nil, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	id := s.Agent.ID
	e = g.busy[id]
	if e == nil || e.egress != string(egress) {
		foreign, err := g.Servers.Foreign(s.Egress)
		if err != nil {
			return nil, nil, err
		}
		old := e
		e = &engaged{Party: g.Servers.Party(s.Agent.UserID, repository(s.Agent), foreign), egress: string(egress)}
		if old != nil {
			old.idle.Stop()
			go old.Close()
		}
		e.idle = time.AfterFunc(idleFor, func() { g.leave(id, e) })
		g.busy[id] = e
	}
	e.users++
	e.idle.Stop()
	return e, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if e.users--; e.users == 0 {
			e.idle.Reset(idleFor)
		}
	}, nil
}

// leave closes the connections of an agent, unless they are in use again.
func (g *Agents) leave(id string, e *engaged) {
	g.mu.Lock()
	if e.users > 0 {
		g.mu.Unlock()
		return
	}
	if g.busy[id] == e {
		delete(g.busy, id)
	}
	g.mu.Unlock()
	e.Close()
}

func repository(a agent.Agent) string {
	if len(a.Repos) == 0 {
		return ""
	}
	return secret.Repo(a.Repos[0].URL)
}

// ServersOf returns the servers that the agent gets in its current run, and
// those that it does not get. Variables in remote servers are expanded.
func (g *Agents) ServersOf(ctx context.Context, s *agent.State) ([]mcp.Server, []mcp.LeftOut, error) {
	var all []mcp.Server
	var left []mcp.LeftOut
	kept, err := g.Servers.List(ctx, s.Agent.UserID)
	if err != nil {
		return nil, nil, err
	}
	for _, k := range kept {
		all = append(all, k.Server)
	}
	if s.MCPRun != "" {
		value, err := g.Servers.OfRun(ctx, s.Agent.ID, s.MCPRun)
		if err != nil {
			return nil, nil, err
		}
		var given []mcp.Server
		if value != "" {
			if err := json.Unmarshal([]byte(value), &given); err != nil {
				return nil, nil, fmt.Errorf("MCP servers of %s: %w", s.Agent.ID, err)
			}
		}
		all = append(all, given...)
	}
	projects, wrong := g.project(ctx, s.Agent)
	all, left = append(all, projects...), append(left, wrong...)
	if len(all) == 0 {
		return nil, left, nil
	}
	env, err := g.Environment(ctx, s.Agent)
	if err != nil {
		return nil, nil, err
	}
	all, unset, err := g.expanded(ctx, s.Agent, all)
	if err != nil {
		return nil, nil, err
	}
	servers, out := mcp.Merge(env, all...)
	return servers, slices.Concat(left, unset, out), nil
}

// project reads the servers that the repository and its plugins configure. It reports an
// unreadable file as left out.
func (g *Agents) project(ctx context.Context, a agent.Agent) (servers []mcp.Server, left []mcp.LeftOut) {
	for _, name := range mcp.Files {
		found, wrong, ok := g.configured(ctx, a, name)
		if servers, left = found, wrong; ok {
			break
		}
	}
	for _, name := range g.ofPlugins(ctx, a, &left) {
		found, wrong, _ := g.configured(ctx, a, name)
		servers, left = append(servers, found...), append(left, wrong...)
	}
	return servers, left
}

// configured reads the servers in a file of the repository. ok is false if the file does
// not exist.
func (g *Agents) configured(ctx context.Context, a agent.Agent, name string) (servers []mcp.Server, left []mcp.LeftOut, ok bool) {
	data, err := g.File(ctx, a, a.RulesAt, name)
	if err != nil {
		return nil, []mcp.LeftOut{{Name: name, Source: mcp.Project, Why: "the file cannot be read: " + fault.Of(err).Message}}, true
	}
	if data == nil {
		return nil, nil, false
	}
	servers, findings := mcp.Parse(name, data, mcp.Project)
	for _, f := range findings {
		if f.Severity == environment.Error {
			left = append(left, mcp.LeftOut{Name: strings.TrimPrefix(f.Key, "mcpServers."), Source: mcp.Project, Why: f.Message})
		}
	}
	return servers, left, true
}

// ofPlugins returns the files in which the plugins of the repository configure servers.
// It adds problems to left.
func (g *Agents) ofPlugins(ctx context.Context, a agent.Agent, left *[]mcp.LeftOut) (files []string) {
	if g.Plugins == nil {
		return nil
	}
	skip := func(name, why string) { *left = append(*left, mcp.LeftOut{Name: name, Source: mcp.Project, Why: why}) }
	roots, err := g.Plugins(ctx, a, a.RulesAt)
	if err != nil {
		skip("plugins", "they cannot be read: "+fault.Of(err).Message)
	}
	for _, root := range roots {
		manifest := path.Join(root, plugin.Manifest)
		data, err := g.File(ctx, a, a.RulesAt, manifest)
		if err != nil {
			skip(manifest, "the file cannot be read: "+fault.Of(err).Message)
			continue
		}
		if _, _, err := plugin.Parse(data); err != nil {
			skip(manifest, "the plugin is not read: its manifest "+err.Error())
			continue
		}
		files = append(files, path.Join(root, plugin.Servers))
	}
	return files
}

// expanded replaces the variables in remote servers by the agent's values.
func (g *Agents) expanded(ctx context.Context, a agent.Agent, all []mcp.Server) ([]mcp.Server, []mcp.LeftOut, error) {
	if !slices.ContainsFunc(all, mcp.Server.Remote) {
		return all, nil, nil
	}
	set, _, err := g.Variables(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	vars := mcp.Variables{Workspace: workspace, Env: func(name string) (string, bool) { v, ok := set.Vars[name]; return v, ok }}
	var out []mcp.Server
	var left []mcp.LeftOut
	for _, s := range all {
		if !s.Remote() || s.Command != "" {
			out = append(out, s)
			continue
		}
		full, err := s.Expand(vars)
		if err != nil {
			left = append(left, mcp.LeftOut{Name: s.Name, Source: s.Source, Why: err.Error()})
			continue
		}
		out = append(out, full)
	}
	return out, left, nil
}

// List returns the tools of a remote server.
func (g *Agents) List(ctx context.Context, s *agent.State, server mcp.Server) (mcp.Listing, error) {
	e, done, err := g.party(s)
	if err != nil {
		return mcp.Listing{}, err
	}
	defer done()
	return e.List(ctx, server), context.Cause(ctx)
}

// Call calls a tool of a remote server, once.
func (g *Agents) Call(ctx context.Context, s *agent.State, server mcp.Server, tool string, args json.RawMessage) (mcp.Result, error) {
	e, done, err := g.party(s)
	if err != nil {
		return mcp.Result{}, err
	}
	defer done()
	return e.Call(ctx, server, tool, args)
}

// Resources lists the resources of a remote server.
func (g *Agents) Resources(ctx context.Context, s *agent.State, server mcp.Server) ([]mcp.Resource, error) {
	e, done, err := g.party(s)
	if err != nil {
		return nil, err
	}
	defer done()
	return e.Resources(ctx, server)
}

// Read reads a resource of a remote server.
func (g *Agents) Read(ctx context.Context, s *agent.State, server mcp.Server, uri string) ([]mcp.Content, error) {
	e, done, err := g.party(s)
	if err != nil {
		return nil, err
	}
	defer done()
	return e.Read(ctx, server, uri)
}

// SignIn returns the address at which the agent's user starts a sign-in to the
// server, or "" if no sign-in is needed. The address is a page of Aloft,
// because only the user's own browser may start a sign-in.
func (g *Agents) SignIn(ctx context.Context, s *agent.State, server mcp.Server) (string, error) {
	if !server.Remote() {
		return "", nil
	}
	l, err := g.List(ctx, s, server)
	switch {
	case err != nil:
		return "", err
	case l.State == mcp.NeedsAuth:
		return strings.TrimSuffix(g.Servers.PublicURL(), "/") + "/agents/" + s.Agent.ID + "/machine?sign-in=" + url.QueryEscape(server.Name), nil
	case l.State == mcp.Failed:
		return "", fault.Unavailable("%s", l.Error).Named(CodeFailed)
	}
	return "", nil
}

// Shown is one of an agent's servers, as shown to its user.
type Shown struct {
	mcp.Server
	SignIn  SignInStatus
	Listing *mcp.Listing // the tools last reported to the agent; nil before the first time, or if the server has changed since
}

// Show returns the agent's servers, and those that it does not get.
func (g *Agents) Show(ctx context.Context, s *agent.State) ([]Shown, []mcp.LeftOut, error) {
	servers, left, err := g.ServersOf(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	listings := mcp.ParseListings(s.Servers)
	out := make([]Shown, len(servers))
	for i, server := range servers {
		if out[i], err = g.show(ctx, s.Agent, server, listings); err != nil {
			return nil, nil, err
		}
	}
	return out, left, nil
}

func (g *Agents) show(ctx context.Context, a agent.Agent, server mcp.Server, listings []mcp.Listing) (Shown, error) {
	status, err := g.Servers.SignIn(ctx, server, userOf(a.UserID, repository(a), server))
	out := Shown{Server: server, SignIn: status}
	for _, l := range listings {
		if l.Server == server.Name && !(l.State == mcp.NeedsAuth && status == SignedIn) {
			out.Listing = &l
		}
	}
	return out, err
}

// BeginSignIn starts a sign-in to one of the agent's servers for its user; see
// [Servers.BeginSignIn].
func (g *Agents) BeginSignIn(ctx context.Context, s *agent.State, name string, back ReturnTo) (address, state string, err error) {
	servers, _, err := g.ServersOf(ctx, s)
	if err != nil {
		return "", "", err
	}
	server, ok := mcp.Find(servers, name)
	if !ok {
		return "", "", fault.NotFound("the agent has no such MCP server")
	}
	var foreign *agent.Egress
	if server.Source == mcp.Project {
		foreign = &s.Egress
	}
	back.Server, back.AgentID = server.Name, s.Agent.ID
	return g.Servers.BeginSignIn(ctx, foreign, server, userOf(s.Agent.UserID, repository(s.Agent), server), back)
}
