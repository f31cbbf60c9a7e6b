// Package environments is the part of the REST API for saved environments, their
// builds, and the snapshots that they start from.
package environments

import (
	"sync"

	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
)

// Config holds the dependencies that only this package uses.
type Config struct {
	Builds    store.Builds
	Snapshots store.Snapshots // records of saved disks and their owners
	Builder   Builder         `needed:"no"` // nil turns builds off
	SetUps    SetUps          `needed:"no"` // nil if machines cannot be saved as environments
	Disks     Disks           `needed:"no"` // nil if no disks are saved
}

// API serves the environments.
type API struct {
	*rest.Shared
	Config
	naming sync.Mutex // held while an environment gets a name
}

// New returns an API.
func New(s *rest.Shared, c Config) *API { return &API{Shared: s, Config: c} }
