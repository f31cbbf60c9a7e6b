package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"aloft/internal/control/build"
	"aloft/internal/control/disk"
	"aloft/internal/policy"
)

// buildsConfig configures builds of environments. Method check validates the durations
// before anything uses them.
type buildsConfig struct {
	StaleAfter        string `yaml:"stale_after"`   // age of a build after which using it checks whether a new build is due
	InstallLimit      string `yaml:"install_limit"` // time limit of install
	StartLimit        string `yaml:"start_limit"`   // time limit of start
	WatchEvery        string `yaml:"watch_every"`   // how often to check default branches for a changed environment; 0s means never
	RebuildEvery      string `yaml:"rebuild_every"` // age of a build in use after which it is rebuilt if anything has changed; 0s means never
	KeepBuilds        int    `yaml:"keep_builds"`   // number of builds kept per environment, with their disks
	KeepFor           string `yaml:"keep_for"`      // how long unused builds are kept; 0s means forever
	SnapshotFor       string `yaml:"snapshot_for"`  // how long unused snapshots are kept; 0s means forever
	FailedBuildsFor   string `yaml:"wreck_for"`     // how long the machine of a failed install is kept
	FailedBuildsBytes int64  `yaml:"wreck_bytes"`   // disk limit for all of those together; 0 means no limit
}

func (c buildsConfig) check() error {
	for _, d := range []struct {
		key, value string
		zero       bool
	}{{"stale_after", c.StaleAfter, true}, {"install_limit", c.InstallLimit, false}, {"start_limit", c.StartLimit, false}, {"wreck_for", c.FailedBuildsFor, true},
		{"watch_every", c.WatchEvery, true}, {"rebuild_every", c.RebuildEvery, true}, {"keep_for", c.KeepFor, true}, {"snapshot_for", c.SnapshotFor, true}} {
		if v, err := time.ParseDuration(d.value); err != nil || v < 0 || v == 0 && !d.zero {
			return fmt.Errorf("environments.%s: invalid duration %q: use a value such as 90s, 10m or 24h", d.key, d.value)
		}
	}
	if c.KeepBuilds < 1 {
		return errors.New("environments.keep_builds: must be at least 1: the build that machines start from is always kept")
	}
	if c.FailedBuildsBytes < 0 {
		return errors.New("environments.wreck_bytes: must not be negative (0 is no limit)")
	}
	return nil
}

// duration returns a duration that check has validated.
func duration(s string) time.Duration {
	d, _ := time.ParseDuration(s)
	return d
}

// newBuilder returns the builder of environments. If machines' disks cannot be saved,
// it builds nothing.
func (a *assembly) newBuilder(o Options, c Config, network policy.Network, secrets map[string]string) *build.Builder {
	config := build.Config{
		Files: a.gateway, Gateway: a.gateway, Builds: a.store, Saved: a.store, Journal: a.store, Snapshots: a.store, Leases: a.store, Owner: a.store.ServerID(), Runtime: a.host.Machines,
		Dir: filepath.Join(o.Data, "builds"), Image: c.Machine.Image, Class: c.Machine.Class, Network: network, TeamEgress: a.team.Egress, Secrets: secrets,
		Limits:     c.Machine.limits(),
		StaleAfter: duration(c.Environments.StaleAfter), InstallLimit: duration(c.Environments.InstallLimit), Logger: a.logger,
		WatchEvery: duration(c.Environments.WatchEvery), RebuildEvery: duration(c.Environments.RebuildEvery),
		KeepBuilds: c.Environments.KeepBuilds, KeepFor: duration(c.Environments.KeepFor), SnapshotFor: duration(c.Environments.SnapshotFor),
		FailedBuildsFor: duration(c.Environments.FailedBuildsFor), FailedBuildsBytes: c.Environments.FailedBuildsBytes,
	}
	if a.host.NoMachines == "" {
		config.Layers, config.HaveImage, config.Dockerfiles = a.host.Layers, a.host.Images.Prepare, a.host.Dockerfiles
		config.Room = func() error { return a.disk.Room() }
	}
	return build.New(config)
}

// diskHolders returns everything that uses disk: machines and Dockerfile builds.
func (s *Server) diskHolders(ctx context.Context) ([]disk.Holder, error) {
	all, err := disk.Machines(ctx, s.host.Machines)
	if s.host.Dockerfiles == nil {
		return all, err
	}
	for _, id := range s.host.Dockerfiles.Running() {
		all = append(all, runningBuild{s.host, id})
	}
	return all, err
}

// stopHolder stops a machine or build that has exceeded a limit of its disk or its
// connections.
func (s *Server) stopHolder(ctx context.Context, id string, why error) error {
	if s.host.Dockerfiles != nil && s.host.Dockerfiles.Stop(id, why) {
		return nil
	}
	if ours, err := s.builder.Stop(ctx, id, why); ours {
		return err
	}
	return s.fleet.StopMachine(ctx, id, s.blame(id, why))
}
