package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"aloft/internal/control/build"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container"
	"aloft/internal/policy"
)

// buildsConfig is how environments are made ready. Its values are durations,
// which check has read before anybody else does.
type buildsConfig struct {
	StaleAfter   string `yaml:"stale_after"`   // how old a build may be before its use asks whether another is due
	InstallLimit string `yaml:"install_limit"` // how long install may take
	StartLimit   string `yaml:"start_limit"`   // how long start may take
}

func (c buildsConfig) check() error {
	for _, d := range []struct {
		key, value string
		zero       bool
	}{{"stale_after", c.StaleAfter, true}, {"install_limit", c.InstallLimit, false}, {"start_limit", c.StartLimit, false}} {
		if v, err := time.ParseDuration(d.value); err != nil || v < 0 || v == 0 && !d.zero {
			return fmt.Errorf("environments.%s: %q is no duration: it is as in 90s, 10m or 24h", d.key, d.value)
		}
	}
	return nil
}

// duration is a value that check has read.
func duration(s string) time.Duration {
	d, _ := time.ParseDuration(s)
	return d
}

// newBuilder makes the builder of environments. Where disks of machines cannot
// be saved, it builds none.
func (s *server) newBuilder(data string, c serverConfig, network policy.Network, secrets map[string]string, logger *slog.Logger) *build.Builder {
	config := build.Config{
		Files: s.gateway, Gateway: s.gateway, Builds: s.store, Saved: s.store, Snapshots: s.store, Leases: s.store, Owner: s.store.ServerID(), Runtime: s.runtime,
		Dir: filepath.Join(data, "builds"), Image: c.Machine.Image, Class: c.Machine.Class, Network: network, Secrets: secrets,
		Limits:     machine.Limits{MemoryBytes: c.Machine.MemoryBytes, CPUs: c.Machine.CPUs, PIDs: c.Machine.PIDs},
		StaleAfter: duration(c.Environments.StaleAfter), InstallLimit: duration(c.Environments.InstallLimit), Logger: logger,
	}
	if r, ok := s.runtime.(*container.Runtime); ok {
		config.Layers = r.Layers()
	}
	return build.New(config)
}
