package server

import (
	"io/fs"
	"os"
	"path/filepath"

	"aloft/internal/control/dockerfile"
	"aloft/internal/control/image"
	"aloft/internal/control/machine/container"
	"aloft/internal/policy"
	"aloft/internal/server/engine"
)

// OpenBuilder returns a Dockerfile builder that uses the best engine on this
// host. The caller must close the engine.
func OpenBuilder(embedded fs.FS, data string, c Config, network policy.Network, images *image.Store) (*dockerfile.Builder, error) {
	bin, err := container.Install(embedded, filepath.Join(data, "bin"))
	if err != nil {
		return nil, err
	}
	links, err := engine.NewLinks()
	if err != nil {
		return nil, err
	}
	opened, err := engine.Open(filepath.Join(data, "build"), bin.Runc, links, c.Images.engine())
	if err != nil {
		return nil, err
	}
	dir := buildWorkDir(data)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &dockerfile.Builder{
		Engine: opened, Images: images, Dir: dir, Registry: c.registry(), Network: c.Images.BuildNetwork, Policy: network,
		Limits: dockerfile.Limits{
			MemoryBytes: c.Machine.MemoryBytes, CPUs: c.Machine.CPUs, PIDs: c.Machine.PIDs, Time: duration(c.Environments.InstallLimit),
		},
		MaxBase: c.Machine.DiskBytes,
	}, nil
}

// engine returns the configuration of the engine.
func (c imagesConfig) engine() engine.Config {
	return engine.Config{Builder: c.Builder, Address: c.BuilderAt}
}

// CheckBuilder is the aloft doctor check for Dockerfile builds.
func CheckBuilder(c imagesConfig) container.Check { return engine.Check(c.engine()) }

// PackagesDir is the folder in which "aloft image build" caches downloaded
// packages.
func PackagesDir(data string) string { return filepath.Join(data, "build", "packages") }

// buildWorkDir returns the folder for temporary files of Dockerfile builds.
func buildWorkDir(data string) string { return filepath.Join(data, "build", "work") }
