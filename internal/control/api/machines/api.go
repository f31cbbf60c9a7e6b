// Package machines is the part of the REST API that reaches into the machine of
// an agent: terminals, files, ports, the desktop, its changes and its
// connections. It also serves artifacts, which are files that outlive machines.
package machines

import "aloft/internal/control/api/rest"

// Config holds the parts of the server that only this package uses.
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
