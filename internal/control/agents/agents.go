// Package agents creates agents, new ones and forks of others: it validates the
// request, applies the team's settings and the user's quotas, and journals the
// first events.
package agents

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/mcp"
	"aloft/internal/secret"
)

// A Creator creates agents. All fields but Forks, PullRequests, Quotas,
// Inherit and AllowFile are required. Its methods are safe for concurrent use.
type Creator struct {
	Journal      store.Journal
	Agents       store.Agents
	Rules        store.Rules
	Environments store.Environments
	Models       Models
	Secrets      Secrets
	MCP          MCPServers
	PullRequests PullRequests // nil if no forge is configured
	Outbound     Outbound
	Forks        Forks // nil if forks do not copy disks
	Quotas       Quotas
	// Inherit restricts a fork like the agent that it is forked from. It is
	// called before the fork is created; nil restricts nothing.
	Inherit   func(ctx context.Context, agentID, forkID string) error
	AllowFile bool // allows file:// repositories
	// Wake tells the scheduler that the agent's journal has a new run. It
	// returns at once.
	Wake func(agentID string)
}

// Secrets stores the secrets of agents. Its methods are safe for concurrent
// use, and their errors are faults that never contain a value.
type Secrets interface {
	// List returns the secrets of the owners, newest first.
	List(ctx context.Context, owners ...secret.Owner) ([]secret.Secret, error)
	// SealEnvVars encrypts the environment variables of a new agent.
	SealEnvVars(ctx context.Context, agentID string, vars map[string]string) ([]secret.Sealed, error)
	// SealInherited encrypts the secrets of an agent for its fork, so that they
	// are redacted there too. They are not set as variables in the fork's machine.
	SealInherited(ctx context.Context, forkID string, of agent.Agent) ([]secret.Sealed, error)
	// SealWebhook encrypts the webhook of a new agent.
	SealWebhook(ctx context.Context, agentID, url, key string) (secret.Sealed, error)
	// SealMCP encrypts the MCP servers of a new agent, for use from the given
	// run on.
	SealMCP(ctx context.Context, agentID, runID, servers string) (secret.Sealed, error)
}

// MCPServers validates and stores the MCP servers of agents.
type MCPServers interface {
	// CheckAll returns the servers encoded for sealing. Its faults name the
	// field of the request.
	CheckAll(servers []mcp.Server, field string) (string, error)
	// OfRun returns the servers that came with a run of the agent, encoded, or
	// "".
	OfRun(ctx context.Context, agentID, runID string) (string, error)
}

// PullRequests decides where pull requests can be opened. Its errors are
// faults.
type PullRequests interface {
	// Can returns nil if a forge is configured for the repository.
	Can(repoURL string) error
	// CanAsApp returns nil if a GitHub App is configured for the repository.
	CanAsApp(repoURL string) error
	// RepoOf returns the URL of the repository to clone for a pull request. If
	// repoURL is not "", the pull request must belong to that repository. The
	// error says which of the two arguments is wrong.
	RepoOf(repoURL, prURL string) (string, error)
	// Reviewable returns the review task for an open pull request of the repository,
	// and the commit on which its changes are based.
	Reviewable(ctx context.Context, repoURL, prURL string) (task *agent.ReviewTask, base string, err error)
}

// Outbound makes requests to URLs that users name. Its methods are safe for
// concurrent use, and their errors are faults that do not repeat the URL.
type Outbound interface {
	// Check rejects a URL that the server must not contact.
	Check(rawURL string) error
	// Image fetches an image and returns its media type.
	Image(ctx context.Context, rawURL string) (data []byte, media string, err error)
}

// Result is a new agent with its first run.
type Result struct {
	Agent agent.Agent
	Run   agent.Run
	First []agent.Event // first events of its journal
}

// resultOf folds the first events of an agent.
func resultOf(id, runID string, first []agent.Event) Result {
	out := Result{Agent: agent.Agent{ID: id}, Run: agent.Run{AgentID: id}, First: first}
	for _, e := range first {
		out.Agent.Apply(e)
		if e.RunID == runID {
			out.Run.Apply(e)
		}
	}
	return out
}
