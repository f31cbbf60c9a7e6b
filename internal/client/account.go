package client

import (
	"context"
	"net/http"
	"time"
)

// Me is the user to whom the client's key belongs.
type Me struct {
	APIKeyName    string    `json:"apiKeyName"`
	CreatedAt     time.Time `json:"createdAt"`
	UserID        int64     `json:"userId,omitempty"`
	UserEmail     string    `json:"userEmail,omitempty"`
	UserFirstName string    `json:"userFirstName,omitempty"`
	UserLastName  string    `json:"userLastName,omitempty"`
}

// Me returns the user to whom the client's key belongs.
func (c *Client) Me(ctx context.Context) (Me, error) {
	var out Me
	return out, c.call(ctx, http.MethodGet, "/v1/me", nil, &out)
}

// Model is a model that agents can use.
type Model struct {
	ID          string   `json:"id"`
	DisplayName string   `json:"displayName"`
	Description string   `json:"description,omitempty"`
	Aliases     []string `json:"aliases,omitempty"`

	Parameters []ModelParameter `json:"parameters,omitempty"`
	Variants   []ModelVariant   `json:"variants,omitempty"`
}

// ModelParameter is a parameter of a model.
type ModelParameter struct {
	ID          string       `json:"id"`
	DisplayName string       `json:"displayName,omitempty"`
	Values      []ModelValue `json:"values"`
}

// ModelValue is a value of a [ModelParameter].
type ModelValue struct {
	Value       string `json:"value"`
	DisplayName string `json:"displayName,omitempty"`
}

// ModelVariant is a model with fixed parameter values.
type ModelVariant struct {
	Params      []ModelParam `json:"params"`
	DisplayName string       `json:"displayName"`
	Description string       `json:"description,omitempty"`
	IsDefault   bool         `json:"isDefault,omitempty"`
}

// Models returns the models of the server.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var out struct {
		Items []Model `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/models", nil, &out)
}

// UpdateMe changes the given fields of the caller: firstName, lastName and email.
func (c *Client) UpdateMe(ctx context.Context, in map[string]string) (out User, err error) {
	return out, c.callWith(ctx, request{method: http.MethodPatch, path: "/v1/me/profile", in: in}, &out)
}

// SetPassword sets the caller's password. current is the previous password, or
// "".
func (c *Client) SetPassword(ctx context.Context, current, password string) error {
	return c.callWith(ctx, request{method: http.MethodPut, path: "/v1/me/password", in: map[string]string{"current": current, "password": password}}, nil)
}

// Passkey is a passkey of the caller.
type Passkey struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	CreatedAt time.Time  `json:"createdAt"`
	UsedAt    *time.Time `json:"usedAt,omitempty"`
}

// Passkeys returns the caller's passkeys.
func (c *Client) Passkeys(ctx context.Context) ([]Passkey, error) {
	var out struct {
		Items []Passkey `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/me/passkeys", nil, &out)
}

// DeletePasskey removes one of the caller's passkeys.
func (c *Client) DeletePasskey(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/me/passkeys/"+segment(id), nil, nil)
}

// SubToken is a token that acts for a user for a limited time.
type SubToken struct {
	AccessToken string    `json:"accessToken"`
	ExpiresAt   time.Time `json:"expiresAt"`
	UserID      int64     `json:"userId"`
	TeamID      int64     `json:"teamId"`
}

// SubToken creates a token that acts for the user with the given e-mail address.
func (c *Client) SubToken(ctx context.Context, email string) (out SubToken, err error) {
	return out, c.callWith(ctx, request{method: http.MethodPost, path: "/v1/sub-tokens", in: map[string]string{"forUserEmail": email}}, &out)
}

// Repositories returns the repositories on which the caller may run agents,
// most recently used first.
func (c *Client) Repositories(ctx context.Context) ([]Repo, error) {
	var out struct {
		Items []Repo `json:"items"`
	}
	return out.Items, c.call(ctx, http.MethodGet, "/v1/repositories", nil, &out)
}
