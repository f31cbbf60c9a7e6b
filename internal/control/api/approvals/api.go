// Package approvals is the part of the REST API in which people answer what
// agents ask: permission for a tool call, questions, and plans.
package approvals

import "aloft/internal/control/api/rest"

// Config is what only this part of the API needs.
type Config struct {
	Review Review
}

// API serves the approvals.
type API struct {
	*rest.Shared
	Config
}

// New returns an API.
func New(s *rest.Shared, c Config) *API { return &API{s, c} }
