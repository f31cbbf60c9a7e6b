// Package agents is the part of the REST API for agents and their runs: create,
// list, follow up, queue, retry, fork, archive and delete.
package agents

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/approvals"
	"aloft/internal/control/api/mcpservers"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/pulls"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/environment"
)

// Config holds the dependencies that only this package uses.
type Config struct {
	Artifacts    Artifacts    `needed:"no"` // nil turns artifacts off
	Forks        agents.Forks `needed:"no"` // nil if forks do not copy disks
	Repositories Repositories `needed:"no"` // nil if no credential can list repositories
	Outbound     agents.Outbound
	Inherit      func(ctx context.Context, agentID, forkID string) error `needed:"no"` // see [agents.Creator]
	Deliveries   store.Deliveries                                        // deliveries of webhooks
	// ProjectFile returns a file of an agent's repository at the commit that
	// the agent started from, or nil if the file does not exist.
	ProjectFile func(ctx context.Context, a agent.Agent, path string) ([]byte, error)
	// Ports returns the ports that the environment of an agent's machine names.
	Ports func(ctx context.Context, a agent.Agent) ([]environment.Port, error)
}

// Artifacts removes the files of agents that outlive machines.
type Artifacts interface {
	// Remove removes all artifacts of an agent. It succeeds if the agent has
	// none.
	Remove(ctx context.Context, agentID string) error
}

// Parts are the parts of the API that create agents or are shown with them.
type Parts struct {
	Models     *modelchoice.API
	Approvals  *approvals.API
	MCPServers *mcpservers.API
	Pulls      *pulls.API
}

// API serves the agents.
type API struct {
	*rest.Shared
	Config
	models     *modelchoice.API
	approvals  *approvals.API
	mcpservers *mcpservers.API
	pulls      *pulls.API
	Listing    *rest.Limiter // limits requests for lists of repositories, by user
}

// New returns an API.
func New(s *rest.Shared, c Config, p Parts) *API {
	return &API{
		Shared: s, Config: c, models: p.Models, approvals: p.Approvals, mcpservers: p.MCPServers, pulls: p.Pulls,
		Listing: rest.NewLimiter(listsPerMinute),
	}
}
