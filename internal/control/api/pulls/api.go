// Package pulls is the part of the REST API that shows and opens the pull
// requests of agents.
package pulls

import "aloft/internal/control/api/rest"

// Config holds the dependencies that only this package uses.
type Config struct {
	Pulls Pulls `needed:"no"` // nil if no forge is configured
}

// API serves the pull requests.
type API struct {
	*rest.Shared
	Config
}

// New returns an API.
func New(s *rest.Shared, c Config) *API { return &API{s, c} }
