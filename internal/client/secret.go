package client

import (
	"context"
	"net/http"
	"time"
)

// Secret is a secret without its value.
type Secret struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"`
	Type          string    `json:"type"` // runtime_secret, environment_variable, build_secret
	Repos         []string  `json:"repos"`
	CreatedAt     time.Time `json:"createdAt"`
	Owner         string    `json:"owner"` // environment, personal, team
	EnvironmentID string    `json:"environmentId,omitempty"`
	Warning       string    `json:"warning,omitempty"`
}

// NewSecret is a request to set a secret.
type NewSecret struct {
	Value string   `json:"value"`
	Type  string   `json:"type,omitempty"`
	Repos []string `json:"repos,omitempty"`
}

// SecretOwner selects the owner of secrets: the team, an environment, or by default the
// caller.
type SecretOwner struct {
	Team          bool
	EnvironmentID string
}

func (o SecretOwner) path(name string) string {
	switch {
	case o.EnvironmentID != "":
		return "/v1/environments/" + segment(o.EnvironmentID) + "/secrets/" + segment(name)
	case o.Team:
		return "/v1/team/secrets/" + segment(name)
	}
	return "/v1/secrets/" + segment(name)
}

// Secrets returns the caller's and the team's secrets, and, unless
// environmentID is "", the environment's secrets.
func (c *Client) Secrets(ctx context.Context, environmentID string) ([]Secret, error) {
	var all []Secret
	for cursor := ""; ; {
		q := page(100, cursor)
		if environmentID != "" {
			q.Set("environmentId", environmentID)
		}
		var out struct {
			Items      []Secret `json:"items"`
			NextCursor string   `json:"nextCursor"`
		}
		if err := c.call(ctx, http.MethodGet, "/v1/secrets", q, &out); err != nil {
			return nil, err
		}
		all = append(all, out.Items...)
		if cursor = out.NextCursor; cursor == "" || len(out.Items) == 0 {
			return all, nil
		}
	}
}

// SetSecret stores a secret. It replaces the owner's secret with the same name.
func (c *Client) SetSecret(ctx context.Context, owner SecretOwner, name string, in NewSecret) (Secret, error) {
	var out Secret
	err := c.callWith(ctx, request{method: http.MethodPut, path: owner.path(name), in: in}, &out)
	return out, err
}

// DeleteSecret removes a secret.
func (c *Client) DeleteSecret(ctx context.Context, owner SecretOwner, name string) error {
	return c.call(ctx, http.MethodDelete, owner.path(name), nil, nil)
}

// RotateSecrets re-encrypts every secret with new keys, and returns their number.
func (c *Client) RotateSecrets(ctx context.Context) (int, error) {
	var out struct {
		Count int `json:"count"`
	}
	err := c.call(ctx, http.MethodPost, "/v1/team/secrets-rotation", nil, &out)
	return out.Count, err
}

// ExternalID returns the external ID for the trust policies of the team's AWS roles.
func (c *Client) ExternalID(ctx context.Context) (string, error) {
	var out struct {
		ExternalID string `json:"externalId"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/team/external-id", nil, &out)
	return out.ExternalID, err
}
