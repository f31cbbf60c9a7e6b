package client

import (
	"context"
	"net/http"
)

// Access describes on which repositories members may run agents.
type Access struct {
	Mode     string         `json:"mode"` // ByCredentials or ByAllowList
	Everyone []string       `json:"everyone"`
	Members  []MemberAccess `json:"members"`
}

// MemberAccess is the allow list of one member.
type MemberAccess struct {
	UserID       int64    `json:"userId"`
	Repositories []string `json:"repositories"`
}

// Modes of [Access].
const (
	ByCredentials = "credentials"
	ByAllowList   = "allow-list"
)

// AccessChange is a change of [Access]. Its zero fields change nothing.
type AccessChange struct {
	Mode     string         `json:"mode,omitempty"`
	Everyone *[]string      `json:"everyone,omitempty"`
	Members  []MemberAccess `json:"members,omitempty"` // each replaces the list of one member
}

// Of returns the allow list of one member.
func (a Access) Of(userID int64) []string {
	for _, m := range a.Members {
		if m.UserID == userID {
			return m.Repositories
		}
	}
	return nil
}

// Access returns the server's repository access rules.
func (c *Client) Access(ctx context.Context) (out Access, err error) {
	return out, c.call(ctx, http.MethodGet, "/v1/repository-access", nil, &out)
}

// UpdateAccess changes the server's repository access rules.
func (c *Client) UpdateAccess(ctx context.Context, in AccessChange) (out Access, err error) {
	return out, c.callWith(ctx, request{method: http.MethodPatch, path: "/v1/repository-access", in: in}, &out)
}
