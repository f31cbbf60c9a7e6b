package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"aloft/internal/control/dockerfile"
	"aloft/internal/control/dockerfile/buildah"
	"aloft/internal/control/dockerfile/buildkit"
	"aloft/internal/control/dockerfile/docker"
	"aloft/internal/control/egress"
	"aloft/internal/control/image"
	"aloft/internal/control/machine/container"
	"aloft/internal/policy"
)

// OpenBuilder returns a Dockerfile builder that uses the best engine on this host.
// The caller must close its engine.
func OpenBuilder(embedded fs.FS, data string, c Config, network policy.Network, images *image.Store) (*dockerfile.Builder, error) {
	bin, err := container.Install(embedded, filepath.Join(data, "bin"))
	if err != nil {
		return nil, err
	}
	links, err := newLinks()
	if err != nil {
		return nil, err
	}
	engine, err := openEngine(filepath.Join(data, "build"), bin.Runc, links, c.Images)
	if err != nil {
		return nil, err
	}
	dir := buildWorkDir(data)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &dockerfile.Builder{
		Engine: engine, Images: images, Dir: dir, Registry: c.registry(), Network: c.Images.BuildNetwork, Policy: network,
		Limits: dockerfile.Limits{
			MemoryBytes: c.Machine.MemoryBytes, CPUs: c.Machine.CPUs, PIDs: c.Machine.PIDs, Time: duration(c.Environments.InstallLimit),
		},
		MaxBase: c.Machine.DiskBytes,
	}, nil
}

// buildWorkDir returns the folder for temporary files of Dockerfile builds.
func buildWorkDir(data string) string { return filepath.Join(data, "build", "work") }

// newLinks returns the links that give builds the network of machines, or nil if
// this host does not support them.
func newLinks() (dockerfile.Links, error) {
	if container.CanLink() != nil {
		return nil, nil //nolint:nilerr // builds use another network then
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, dir string, n policy.Network) (dockerfile.Link, error) {
		ns, err := container.OpenNamespace(ctx, []string{self, "gateway"}, dir, n)
		if err != nil {
			return nil, err
		}
		return link{ns}, nil
	}, nil
}

// link implements [dockerfile.Link].
type link struct{ namespace *container.Namespace }

func (l link) Namespace() string  { return l.namespace.Path() }
func (l link) Nameserver() string { return container.Nameserver }
func (l link) Close() error       { return l.namespace.Close() }

func (l link) SetPolicy(ctx context.Context, n policy.Network) error {
	return egress.NewClient(l.namespace.DialGateway).SetPolicy(ctx, n)
}

// engineDetail describes an engine on this host.
type engineDetail struct {
	name, path, address string
}

// errNoEngine means that this host has no engine to build Dockerfiles with.
var errNoEngine = errors.New("no Dockerfile builder found: apt-get install -y --no-install-recommends buildah")

// findEngine chooses the best engine that this host has. "auto" chooses only engines
// that run in a [dockerfile.Cell]. The operator has to name any other, and contains
// what it builds.
func findEngine(c imagesConfig) (engineDetail, error) {
	auto := c.Builder == "auto" || c.Builder == ""
	if auto || c.Builder == "buildkit" && c.BuilderAt == "" || c.Builder == "buildah" {
		if err := dockerfile.CanContain(); err != nil {
			return engineDetail{}, err
		}
	}
	if auto || c.Builder == "buildkit" {
		found, err := findBuildKit(c)
		if err == nil || !auto {
			return found, err
		}
	}
	if auto || c.Builder == "buildah" {
		path, err := buildah.Find()
		if err == nil {
			return engineDetail{"buildah", path, ""}, nil
		}
		if !auto {
			return engineDetail{}, err
		}
	}
	if c.Builder == "docker" {
		if at := dockerAddress(c); at != "" {
			return engineDetail{"docker", "", at}, nil
		}
		return engineDetail{}, errors.New("images.builder is docker, but no daemon socket was found: set images.builder_at")
	}
	return engineDetail{}, errNoEngine
}

// findBuildKit finds BuildKit. It refuses versions with known holes.
func findBuildKit(c imagesConfig) (engineDetail, error) {
	buildctl, err := exec.LookPath("buildctl")
	buildkitd, daemonErr := exec.LookPath("buildkitd")
	address := ""
	if c.Builder == "buildkit" {
		address = c.BuilderAt
	}
	if err != nil || address == "" && daemonErr != nil {
		return engineDetail{}, errors.New("images.builder is buildkit, but buildctl and either buildkitd or an address are missing: build them with hack/build-buildkit.sh")
	}
	if address != "" {
		buildkitd = buildctl
	}
	return engineDetail{"buildkit", buildctl, address}, buildkit.CheckVersion(buildkitd)
}

// dockerAddress returns the address of a Docker or Podman daemon, or "".
func dockerAddress(c imagesConfig) string {
	if c.BuilderAt != "" {
		return c.BuilderAt
	}
	for _, path := range []string{"/run/docker.sock", "/run/podman/podman.sock"} {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			return (&url.URL{Scheme: "unix", Path: path}).String()
		}
	}
	return ""
}

func openEngine(dir, runc string, links dockerfile.Links, c imagesConfig) (dockerfile.Engine, error) {
	d, err := findEngine(c)
	if err != nil {
		return nil, err
	}
	switch d.name {
	case "buildkit":
		daemon, _ := exec.LookPath("buildkitd") // findEngine has checked that buildkitd or an address exists
		return buildkit.New(buildkit.Config{Buildctl: d.path, Buildkitd: daemon, Address: d.address, Runtime: runc, Links: links, Dir: filepath.Join(dir, "buildkit")})
	case "buildah":
		return buildah.New(buildah.Config{Path: d.path, Runtime: runc, Links: links, Dir: filepath.Join(dir, "buildah")})
	}
	return docker.New(d.address)
}

// CheckBuilder is the aloft doctor check for Dockerfile builds.
func CheckBuilder(c imagesConfig) container.Check {
	check := container.Check{Name: "Dockerfile builds"}
	d, err := findEngine(c)
	if containErr := dockerfile.CanContain(); containErr != nil && err != nil {
		check.Detail, check.Fix = containErr.Error(), "sysctl -w user.max_user_namespaces=28633"
		return check
	}
	if err != nil {
		check.Detail, check.Fix = "environments with a Dockerfile cannot be built: "+err.Error(), "apt-get install -y --no-install-recommends buildah, or hack/build-buildkit.sh and put .bin/buildkitd and .bin/buildctl on the PATH"
		return check
	}
	check.OK, check.Detail = true, d.name+" in a user namespace"
	if d.address != "" {
		check.Detail = d.name + ", contained by whoever runs it"
	}
	if at := cmp.Or(d.path, d.address); at != "" {
		check.Detail += " (" + at + ")"
	}
	return check
}
