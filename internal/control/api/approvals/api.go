// Package approvals is the part of the REST API in which people answer what
// agents ask: permission for a tool call, questions, and plans.
package approvals

import "aloft/internal/control/api/rest"

// Config holds the parts of the server that only this package uses.
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
