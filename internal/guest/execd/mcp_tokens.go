package execd

import (
	"context"
	"maps"
	"slices"
	"sync"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// MCPToken is what an MCP server gave when somebody signed in. All of it is
// secret.
type MCPToken struct {
	RefreshToken string
	AccessToken  string
	ClientID     string
	ClientSecret string
	RedirectURIs []string
}

// MCPTokens are kept by server, in memory only: they are gone with the process.
// Its methods are safe for concurrent use.
type MCPTokens struct {
	mu     sync.Mutex
	tokens map[string]MCPToken
}

// NewMCPTokens makes an empty store.
func NewMCPTokens() *MCPTokens { return &MCPTokens{tokens: map[string]MCPToken{}} }

// Set keeps a server's token; the one before it is forgotten.
func (m *MCPTokens) Set(server string, t MCPToken) {
	t.RedirectURIs = slices.Clone(t.RedirectURIs)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tokens[server] = t
}

// Get returns a server's token, if there is one.
func (m *MCPTokens) Get(server string) (t MCPToken, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok = m.tokens[server]
	return t, ok
}

// Forget removes a server's token.
func (m *MCPTokens) Forget(server string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tokens, server)
}

func (m *MCPTokens) all() map[string]MCPToken {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.tokens)
}

// GetMcpRefreshTokens returns what MCP servers gave.
func (s *Server) GetMcpRefreshTokens(_ context.Context, req *connect.Request[agentv1.GetMcpRefreshTokensRequest]) (*connect.Response[agentv1.GetMcpRefreshTokensResponse], error) {
	res := &agentv1.GetMcpRefreshTokensResponse{Tokens: map[string]*agentv1.McpOAuthStoredData{}}
	for server, t := range s.mcp.all() {
		if want := req.Msg.GetServer(); want != "" && want != server {
			continue
		}
		res.Tokens[server] = &agentv1.McpOAuthStoredData{
			RefreshToken: t.RefreshToken, ClientId: t.ClientID, ClientSecret: t.ClientSecret,
			RedirectUris: t.RedirectURIs, AccessToken: t.AccessToken,
		}
	}
	return connect.NewResponse(res), nil
}
