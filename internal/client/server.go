package client

import (
	"context"
	"net/http"
)

// Server describes the models, forges and other parts that the server uses.
type Server struct {
	Models     []ServerModel `json:"models"` // the first is the default
	GitServers []GitServer   `json:"gitServers"`
	LocalModel *LocalModel   `json:"localModel,omitempty"`
	Ignored    []string      `json:"ignored"`
}

// ServerModel is a model of the server. Source is configuration or connected.
type ServerModel struct {
	ID       string `json:"id"`
	Provider string `json:"provider"`
	Name     string `json:"name,omitempty"`
	BaseURL  string `json:"baseUrl,omitempty"`
	Source   string `json:"source"`
}

// GitServer is a git server for which the server has a credential.
type GitServer struct {
	Host   string `json:"host"`
	URL    string `json:"url"`
	Forge  string `json:"forge,omitempty"`
	Source string `json:"source"`
}

// LocalModel is a model server that answers on the server's host.
type LocalModel struct {
	Name    string `json:"name"`
	BaseURL string `json:"baseUrl"`
}

// NewModel is a model to connect.
type NewModel struct {
	Provider string `json:"provider"`
	API      string `json:"api,omitempty"`
	Name     string `json:"name,omitempty"`
	BaseURL  string `json:"baseUrl,omitempty"`
	APIKey   string `json:"apiKey,omitempty"`
}

// NewGitServer is a git server to connect.
type NewGitServer struct {
	Scheme   string `json:"scheme,omitempty"`
	Forge    string `json:"forge,omitempty"`
	Username string `json:"username,omitempty"`
	Token    string `json:"token"`
}

// Connected is the result of a connection.
type Connected struct {
	ID    string   `json:"id"`
	Login string   `json:"login,omitempty"`
	Lacks []string `json:"lacks"`
}

// Server returns the models and git servers that the server uses.
func (c *Client) Server(ctx context.Context) (Server, error) {
	var out Server
	err := c.call(ctx, http.MethodGet, "/v1/server", nil, &out)
	return out, err
}

// ConnectModel tries a model and connects it.
func (c *Client) ConnectModel(ctx context.Context, id string, in NewModel) (Connected, error) {
	var out Connected
	err := c.callWith(ctx, request{method: http.MethodPut, path: "/v1/server/models/" + segment(id), in: in}, &out)
	return out, err
}

// ConnectGitServer checks a token and connects the git server.
func (c *Client) ConnectGitServer(ctx context.Context, host string, in NewGitServer) (Connected, error) {
	var out Connected
	err := c.callWith(ctx, request{method: http.MethodPut, path: "/v1/server/git-servers/" + segment(host), in: in}, &out)
	return out, err
}

// DisconnectModel removes a connected model.
func (c *Client) DisconnectModel(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/server/models/"+segment(id), nil, nil)
}

// DisconnectGitServer removes a connected git server.
func (c *Client) DisconnectGitServer(ctx context.Context, host string) error {
	return c.call(ctx, http.MethodDelete, "/v1/server/git-servers/"+segment(host), nil, nil)
}
