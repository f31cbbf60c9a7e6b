package offer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/fault"
	"aloft/internal/mcp"
)

// The tools with which a model uses MCP servers. They are the same for all
// servers.
const (
	CallTool   = "CallMcpTool"
	ListTool   = "ListMcpResources"
	FetchTool  = "FetchMcpResource"
	SignInTool = "McpAuth"
)

// Offers is the state of a run's MCP servers, as the loop knows it. Its methods
// are safe for concurrent use.
type Offers struct {
	// Of provides the servers. If it is nil, there are none.
	Of Servers

	mu      sync.Mutex
	known   bool
	servers []mcp.Server
	left    []mcp.LeftOut
	remote  map[string]mcp.Listing // remote servers by name
	here    []mcp.Listing          // servers in the machine, as last reported
	asked   bool                   // the machine was told which servers to run
}

// firstServerWait is how long a run waits for starting servers before it asks
// the model without them.
const firstServerWait = 10 * time.Second

// Servers returns the servers that the agent can use in this run.
func (o *Offers) Servers(ctx context.Context, s *agent.State) ([]mcp.Server, error) {
	if o.Of == nil {
		return nil, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known {
		return o.servers, nil
	}
	servers, left, err := o.Of.ServersOf(ctx, s)
	if err != nil {
		return nil, err
	}
	o.known, o.servers, o.left, o.remote = true, servers, left, map[string]mcp.Listing{}
	return servers, nil
}

// listed returns the tools and resources of the server from a cache. If again
// is true, it retries a remote server that could not be used before.
func (o *Offers) listed(ctx context.Context, s *agent.State, server mcp.Server, again bool) (mcp.Listing, error) {
	o.mu.Lock()
	was, ok := o.remote[server.Name]
	here := o.here
	o.mu.Unlock()
	if !server.Remote() {
		for _, listing := range here {
			if listing.Server == server.Name {
				return listing, nil
			}
		}
		return mcp.Listing{Server: server.Name, State: mcp.Starting}, nil
	}
	if ok && (!again || was.State == mcp.Ready) {
		return was, nil
	}
	listing, err := o.Of.List(ctx, s, server)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return listing, cause
		}
		listing = mcp.Listing{Server: server.Name, State: mcp.Failed, Error: fault.Of(err).Message}
	}
	o.mu.Lock()
	o.remote[server.Name] = listing
	o.mu.Unlock()
	return listing, nil
}

// Listings returns the current listings of all servers. m may be nil.
func (o *Offers) Listings(ctx context.Context, s *agent.State, m Machine) ([]mcp.Listing, error) {
	servers, err := o.Servers(ctx, s)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(servers, func(s mcp.Server) bool { return !s.Remote() }) && m != nil {
		wait := firstServerWait
		o.mu.Lock()
		if o.asked {
			wait = 0
		}
		o.mu.Unlock()
		here, err := m.Servers(ctx, s, servers, wait)
		if err != nil {
			return nil, err
		}
		o.mu.Lock()
		o.here, o.asked = here, true
		o.mu.Unlock()
	}
	all := make([]mcp.Listing, len(servers))
	errs := make([]error, len(servers))
	var asking sync.WaitGroup
	for i, server := range servers {
		asking.Go(func() {
			errs[i] = fault.Contain(func() (err error) {
				all[i], err = o.listed(ctx, s, server, false)
				return err
			})
		})
	}
	asking.Wait()
	for _, left := range o.left {
		all = append(all, mcp.Listing{Server: left.Name, State: mcp.NotUsed, Error: left.Why})
	}
	return all, errors.Join(errs...)
}
