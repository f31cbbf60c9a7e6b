package client

import (
	"context"
	"net/http"
	"time"
)

// MCPServer is an MCP server of the team or the caller, without its secrets.
type MCPServer struct {
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	Owner      string      `json:"owner"` // personal, team
	Type       string      `json:"type"`  // stdio, http, sse
	Command    string      `json:"command,omitempty"`
	Args       []string    `json:"args,omitempty"`
	Env        []string    `json:"env,omitempty"` // names of the variables
	URL        string      `json:"url,omitempty"`
	Headers    []string    `json:"headers,omitempty"` // names of the headers
	Auth       *MCPKnownAs `json:"auth,omitempty"`
	SignedIn   bool        `json:"signedIn"`
	SignInOver bool        `json:"signInOver,omitempty"`
	CreatedAt  time.Time   `json:"createdAt"`
}

// MCPKnownAs is the pre-registered OAuth client of a server.
type MCPKnownAs struct {
	ClientID string   `json:"CLIENT_ID"`
	Secret   bool     `json:"secret"`
	Scopes   []string `json:"scopes"`
}

// NewMCPServer is a request to add a server.
type NewMCPServer struct {
	Owner   string            `json:"owner,omitempty"`
	Name    string            `json:"name"`
	Type    string            `json:"type,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Auth    *MCPClient        `json:"auth,omitempty"`
}

// MCPClient is a pre-registered OAuth client for Aloft.
type MCPClient struct {
	ClientID     string   `json:"CLIENT_ID"`
	ClientSecret string   `json:"CLIENT_SECRET,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
}

// MCPTool is a tool as a server describes it.
type MCPTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// MCPTest is the result of connecting to a server.
type MCPTest struct {
	State string    `json:"state"` // ready, failed, needs_auth
	Tools []MCPTool `json:"tools"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error,omitempty"`
	TookMS int64 `json:"tookMs"`
}

// AgentMCPServer is an MCP server of an agent, with its state or the reason why it is
// left out.
type AgentMCPServer struct {
	Name     string    `json:"name"`
	Source   string    `json:"source"` // team, agent, user, project
	Type     string    `json:"type,omitempty"`
	Command  string    `json:"command,omitempty"`
	URL      string    `json:"url,omitempty"`
	State    string    `json:"state"` // unknown, starting, ready, failed, needs_auth, left_out
	Why      string    `json:"why,omitempty"`
	Tools    []MCPTool `json:"tools,omitempty"`
	SignedIn bool      `json:"signedIn,omitempty"`
}

// MCPServers returns the caller's servers and the team's.
func (c *Client) MCPServers(ctx context.Context) ([]MCPServer, error) {
	var out struct {
		Items []MCPServer `json:"items"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/mcp-servers", nil, &out)
	return out.Items, err
}

// AddMCPServer adds a server.
func (c *Client) AddMCPServer(ctx context.Context, in NewMCPServer) (MCPServer, error) {
	var out MCPServer
	err := c.callWith(ctx, request{method: http.MethodPost, path: "/v1/mcp-servers", in: in}, &out)
	return out, err
}

// RemoveMCPServer removes the server with the given id.
func (c *Client) RemoveMCPServer(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/mcp-servers/"+segment(id), nil, nil)
}

// TestMCPServer connects to a server and lists its tools.
func (c *Client) TestMCPServer(ctx context.Context, id string) (MCPTest, error) {
	var out MCPTest
	err := c.call(ctx, http.MethodPost, "/v1/mcp-servers/"+segment(id)+"/test", nil, &out)
	return out, err
}

// SignOutOfMCPServer deletes the caller's sign-in with a server.
func (c *Client) SignOutOfMCPServer(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/mcp-servers/"+segment(id)+"/sign-in", nil, nil)
}

// AgentMCPServers returns the MCP servers of an agent.
func (c *Client) AgentMCPServers(ctx context.Context, agentID string) ([]AgentMCPServer, error) {
	var out struct {
		Items []AgentMCPServer `json:"items"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/agents/"+segment(agentID)+"/mcp-servers", nil, &out)
	return out.Items, err
}
