package client

import (
	"context"
	"net/http"
	"time"
)

// Me is whose key the client has.
type Me struct {
	APIKeyName    string    `json:"apiKeyName"`
	CreatedAt     time.Time `json:"createdAt"`
	UserID        int64     `json:"userId,omitempty"`
	UserEmail     string    `json:"userEmail,omitempty"`
	UserFirstName string    `json:"userFirstName,omitempty"`
	UserLastName  string    `json:"userLastName,omitempty"`
}

// Me returns whose key the client has.
func (c *Client) Me(ctx context.Context) (Me, error) {
	var out Me
	return out, c.call(ctx, http.MethodGet, "/v1/me", nil, &out)
}

// Model is a model that an agent may use.
type Model struct {
	ID          string   `json:"id"`
	DisplayName string   `json:"displayName"`
	Description string   `json:"description,omitempty"`
	Aliases     []string `json:"aliases,omitempty"`
}

// Models returns the models of the server.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var out struct {
		Items []Model `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/models", nil, &out)
}
