// Package machines is the part of the REST API for the machine of an agent: its
// terminals, files, ports, desktop, changes and connections. It also serves
// artifacts, which are files that outlive machines.
package machines

import "aloft/internal/control/api/rest"

// Config holds the dependencies that only this package uses.
type Config struct {
	Machines  Machines  `needed:"no"` // nil if machines cannot be reached
	Artifacts Artifacts `needed:"no"` // nil turns artifacts off
	Previews  Previews  `needed:"no"` // nil turns previews off
}

// API serves the machines.
type API struct {
	*rest.Shared
	Config
}

// New returns an API.
func New(s *rest.Shared, c Config) *API { return &API{s, c} }
