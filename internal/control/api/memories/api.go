// Package memories is the part of the REST API in which people review the memories of
// repositories: what agents have written down for later agents. A caller sees the
// memories of the repositories on which they may run agents.
package memories

import (
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
)

// Config holds the dependencies that only this package uses.
type Config struct {
	Memories store.Memories
}

// API serves the memories.
type API struct {
	*rest.Shared
	Config
}

// New returns an API.
func New(s *rest.Shared, c Config) *API { return &API{s, c} }
