package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Environment is a saved environment. JSON is empty in a list.
type Environment struct {
	ID    string `json:"id"`
	Owner string `json:"owner"` // personal or team
	Name  string `json:"name"`
	Repos []struct {
		URL string `json:"url"`
	} `json:"repos"`
	JSON      string    `json:"environmentJson,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

// Build is an attempt to make an environment ready.
type Build struct {
	ID        string    `json:"id"`
	Status    string    `json:"status"`
	Trigger   string    `json:"trigger"`
	Message   string    `json:"message,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
}

func environmentPath(id string) string { return "/v1/environments/" + url.PathEscape(id) }

var atOnce = url.Values{"limit": {"100"}}

// Environments returns the newest hundred of your environments and the team's.
func (c *Client) Environments(ctx context.Context) ([]Environment, error) {
	var out struct {
		Items []Environment `json:"items"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/environments", atOnce, &out)
	return out.Items, err
}

// Environment returns a saved environment.
func (c *Client) Environment(ctx context.Context, id string) (Environment, error) {
	var out Environment
	return out, c.call(ctx, http.MethodGet, environmentPath(id), nil, &out)
}

// DeleteEnvironment removes a saved environment with its history.
func (c *Client) DeleteEnvironment(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, environmentPath(id), nil, nil)
}

// Builds returns the newest hundred builds of an environment.
func (c *Client) Builds(ctx context.Context, id string) ([]Build, error) {
	var out struct {
		Items []Build `json:"items"`
	}
	err := c.call(ctx, http.MethodGet, environmentPath(id)+"/builds", atOnce, &out)
	return out.Items, err
}
