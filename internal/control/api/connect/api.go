// Package connect is the part of the REST API with which admins connect models
// and git servers to a running server, in addition to those of its
// configuration file. The connections are stored encrypted. The server reads
// them with [Load] when it starts, and restarts its parts after each change.
package connect

import (
	"context"
	"sync"

	"aloft/internal/control/api/rest"
	"aloft/internal/secret"
)

// Model is a connected model. See server.ModelConfig for the fields.
type Model struct {
	ID       string `json:"-"`
	Provider string `json:"provider"` // anthropic, openai, google
	API      string `json:"api,omitempty"`
	Name     string `json:"name"`
	BaseURL  string `json:"baseUrl,omitempty"`
	Key      string `json:"key,omitempty"`
}

// GitServer is a connected git server: a token for all repositories of a host.
type GitServer struct {
	Host     string `json:"-"` // may include a port
	URL      string `json:"url"`
	Forge    string `json:"forge,omitempty"` // github, gitlab, gitea, none; "" to detect it from the host
	Username string `json:"username,omitempty"`
	Token    string `json:"token"`
}

// Effective is the configuration in use: the configuration file plus the stored
// connections.
type Effective struct {
	Models     []Source
	GitServers []Source
	// Ignored explains which stored connections are not used, and why.
	Ignored []string
}

// Source is a model or git server in use, and says who configured it.
type Source struct {
	ID        string // model id, or host of the git server
	Provider  string // models only
	Forge     string // git servers only
	Name, URL string // name of a model, and address of a model or git server
	Connected bool   // stored, instead of in the configuration file
}

// Grant describes the permissions of a token, as the git server reports them.
type Grant struct {
	Login string   // the token's user, or ""
	Lacks []string // missing scopes
}

// Server is the part of the server that the operations use. Its methods are
// safe for concurrent use. Errors are faults and contain no key.
type Server interface {
	Effective() Effective
	// TryModel asks the model for a short reply.
	TryModel(ctx context.Context, m Model) error
	// TryGitServer checks the token with the server's forge, if it has one.
	TryGitServer(ctx context.Context, g GitServer) (Grant, error)
	// LocalModel returns the model of a model server on this host, if there is one.
	LocalModel(ctx context.Context) (m Model, ok bool)
	// Export returns the effective configuration as a configuration file, with
	// names of environment variables in place of secrets.
	Export() (string, error)
	// Reload restarts the parts of the server with the current connections. It
	// returns before the restart.
	Reload()
}

// Values stores encrypted values. It is safe for concurrent use.
type Values interface {
	Keep(ctx context.Context, owner secret.Owner, name, value string) (secret.Secret, error)
	Kept(ctx context.Context, owner secret.Owner) ([]secret.Opened, error)
	Drop(ctx context.Context, owner secret.Owner, name string) error
}

// Config holds the dependencies that only this package uses.
type Config struct {
	Values Values
	Server Server
}

// API serves the operations.
type API struct {
	*rest.Shared
	Config
	changing sync.Mutex // serializes changes
}

// New returns an API.
func New(s *rest.Shared, c Config) *API { return &API{Shared: s, Config: c} }
