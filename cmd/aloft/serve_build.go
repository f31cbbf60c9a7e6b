package main

import (
	"log/slog"
	"path/filepath"
	"time"

	"aloft/internal/control/build"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container"
	"aloft/internal/policy"
)

// staleAfter is how old an environment's build may be before its use asks
// whether another is due.
const staleAfter = 24 * time.Hour

// newBuilder makes the builder of environments. Where disks of machines cannot
// be saved, it builds none.
func (s *server) newBuilder(data string, c serverConfig, network policy.Network, secrets map[string]string, logger *slog.Logger) *build.Builder {
	config := build.Config{
		Files: s.gateway, Gateway: s.gateway, Builds: s.store, Leases: s.store, Owner: s.store.ServerID(), Runtime: s.runtime,
		Dir: filepath.Join(data, "builds"), Image: c.Machine.Image, Class: c.Machine.Class, Network: network, Secrets: secrets,
		Limits:     machine.Limits{MemoryBytes: c.Machine.MemoryBytes, CPUs: c.Machine.CPUs, PIDs: c.Machine.PIDs},
		StaleAfter: staleAfter, Logger: logger,
	}
	if r, ok := s.runtime.(*container.Runtime); ok {
		config.Layers = r.Layers()
	}
	return build.New(config)
}
