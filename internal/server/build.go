package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"aloft/internal/control/build"
	"aloft/internal/control/disk"
	"aloft/internal/control/dockerfile"
	"aloft/internal/control/image"
	"aloft/internal/control/machine/container"
	"aloft/internal/fault"
	"aloft/internal/policy"
	"aloft/internal/server/engine"
)

// buildsConfig configures builds of environments. Method check validates the durations
// before anything uses them.
type buildsConfig struct {
	StaleAfter        string `yaml:"stale_after"`   // age of a build after which using it checks whether a new build is due
	InstallLimit      string `yaml:"install_limit"` // time limit of install
	StartLimit        string `yaml:"start_limit"`   // time limit of start
	WatchEvery        string `yaml:"watch_every"`   // how often to check default branches for a changed environment; 0s is never
	RebuildEvery      string `yaml:"rebuild_every"` // age of a build in use after which it is rebuilt if anything has changed; 0s is never
	KeepBuilds        int    `yaml:"keep_builds"`   // number of builds kept per environment, with their disks
	KeepFor           string `yaml:"keep_for"`      // how long unused builds are kept; 0s is forever
	SnapshotFor       string `yaml:"snapshot_for"`  // how long unused snapshots are kept; 0s is forever
	FailedBuildsFor   string `yaml:"wreck_for"`     // how long the machine of a failed install is kept
	FailedBuildsBytes int64  `yaml:"wreck_bytes"`   // disk limit for all of those together; 0 is no limit
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
		Files: a.gateway, Gateway: a.gateway, Builds: a.store, Saved: a.store, Journal: a.store, Snapshots: a.store, Leases: a.store, Owner: a.store.ServerID(), Runtime: a.runtime,
		Dir: filepath.Join(o.Data, "builds"), Image: c.Machine.Image, Class: c.Machine.Class, Network: network, TeamEgress: a.team.Egress, Secrets: secrets,
		Limits:     c.Machine.limits(),
		StaleAfter: duration(c.Environments.StaleAfter), InstallLimit: duration(c.Environments.InstallLimit), Logger: a.logger,
		WatchEvery: duration(c.Environments.WatchEvery), RebuildEvery: duration(c.Environments.RebuildEvery),
		KeepBuilds: c.Environments.KeepBuilds, KeepFor: duration(c.Environments.KeepFor), SnapshotFor: duration(c.Environments.SnapshotFor),
		FailedBuildsFor: duration(c.Environments.FailedBuildsFor), FailedBuildsBytes: c.Environments.FailedBuildsBytes,
	}
	if r, ok := a.runtime.(*container.Runtime); ok {
		config.Layers = r.Layers()
		config.HaveImage = func(ctx context.Context, name string) error {
			_, err := r.Images().Prepare(ctx, name, nil)
			return err
		}
		config.Room = func() error { return a.disk.Room() }
		r.Images().SetRoom(config.Room)
		a.dockerfiles = &dockerfiles{options: o, config: c, network: network, images: r.Images()}
		config.Dockerfiles = a.dockerfiles
		if err := dockerfile.Sweep(buildWorkDir(o.Data)); err != nil {
			a.logger.Error("cannot remove leftovers of Dockerfile builds", "error", err)
		}
	}
	return build.New(config)
}

// diskHolders returns everything that uses disk: machines and Dockerfile builds.
func (s *Server) diskHolders(ctx context.Context) ([]disk.Holder, error) {
	all, err := disk.Machines(ctx, s.runtime)
	for _, u := range s.dockerfiles.running() {
		all = append(all, u)
	}
	return all, err
}

// stopHolder stops a machine or build that has exceeded its disk limit.
func (s *Server) stopHolder(ctx context.Context, id string, why error) error {
	if s.dockerfiles.stop(id, why) {
		return nil
	}
	if ours, err := s.builder.Stop(ctx, id, why); ours {
		return err
	}
	return s.fleet.StopMachine(ctx, id, why)
}

// dockerfiles builds Dockerfiles. It chooses an engine of the host at the first build.
type dockerfiles struct {
	options Options
	config  Config
	network policy.Network
	images  *image.Store

	mu      sync.Mutex
	builder *dockerfile.Builder // nil before the first build
}

// Ready implements [build.Dockerfiles].
func (d *dockerfiles) Ready() error {
	if err := engine.Find(d.config.Images.engine()); err != nil {
		return fault.NotImplemented("this server cannot build Dockerfiles: no builder is installed").Named("no_image_builder").
			Hint("run `aloft doctor` on the server to see how to install one").Because(err)
	}
	return nil
}

// Build implements [build.Dockerfiles].
func (d *dockerfiles) Build(ctx context.Context, spec dockerfile.Spec, out func(line string)) (string, error) {
	b, err := d.open()
	if err != nil {
		return "", err
	}
	name, _, err := b.Build(ctx, spec, out)
	return name, err
}

func (d *dockerfiles) open() (*dockerfile.Builder, error) {
	if err := d.Ready(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.builder == nil {
		b, err := OpenBuilder(d.options.Embedded, d.options.Data, d.config, d.network, d.images)
		if err != nil {
			return nil, err
		}
		d.builder = b
	}
	return d.builder, nil
}

// running returns the running builds.
func (d *dockerfiles) running() []*dockerfile.RunningBuild {
	if b := d.opened(); b != nil {
		return b.RunningBuilds()
	}
	return nil
}

// stop stops the build with the given ID because of its disk use, and reports whether
// there is such a build.
func (d *dockerfiles) stop(id string, why error) bool {
	b := d.opened()
	return b != nil && b.Stop(id, why)
}

// prune removes the engine's build cache, unless a build is running. The next builds
// run all their steps.
func (d *dockerfiles) prune(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(d.options.Data, "build")); err != nil || d.Ready() != nil || len(d.running()) > 0 {
		return nil //nolint:nilerr // there is no cache, or it is in use
	}
	b, err := d.open()
	if err == nil {
		err = b.Prune(ctx)
	}
	if fault.Is(err, fault.KindConflict) {
		return nil // another process is building
	}
	return err
}

// opened returns the builder, or nil before the first build.
func (d *dockerfiles) opened() *dockerfile.Builder {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.builder
}

// Has implements [build.Dockerfiles].
func (d *dockerfiles) Has(name string) bool { return d.images.Has(name) }

// Close stops the engine.
func (d *dockerfiles) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.builder == nil {
		return nil
	}
	return d.builder.Engine.Close()
}
