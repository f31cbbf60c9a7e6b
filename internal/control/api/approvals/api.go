// Package approvals is the part of the REST API in which people approve tool
// calls and plans, and answer agents' questions.
package approvals

import "aloft/internal/control/api/rest"

// Config holds the dependencies that only this package uses.
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
