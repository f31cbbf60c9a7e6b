// Package engine chooses and opens the engine that builds Dockerfiles on this host.
package engine

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"aloft/internal/control/dockerfile"
	"aloft/internal/control/dockerfile/buildah"
	"aloft/internal/control/dockerfile/buildkit"
	"aloft/internal/control/dockerfile/docker"
	"aloft/internal/control/egress"
	"aloft/internal/control/machine/container"
	"aloft/internal/policy"
)

// Config selects the engine.
type Config struct {
	Builder string // auto, buildkit, buildah or docker; "" is auto
	Address string // address of a BuildKit or Docker daemon, or ""
}

// NewLinks returns the links that give builds the network of machines, or nil if
// this host does not support them.
func NewLinks() (dockerfile.Links, error) {
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

// found describes an engine on this host.
type found struct {
	name, path, address string
}

// errNone means that this host has no engine to build Dockerfiles with.
var errNone = errors.New("no Dockerfile builder found: apt-get install -y --no-install-recommends buildah")

// Find checks whether an engine on this host can build Dockerfiles, and returns
// an error if none can.
func Find(c Config) error {
	_, err := find(c)
	return err
}

// find chooses the best engine that this host has. "auto" chooses only engines
// that run in a [dockerfile.Cell]. The operator must name any other engine, and
// isolate its builds.
func find(c Config) (found, error) {
	auto := c.Builder == "auto" || c.Builder == ""
	if auto || c.Builder == "buildkit" && c.Address == "" || c.Builder == "buildah" {
		if err := dockerfile.CanContain(); err != nil {
			return found{}, err
		}
	}
	if auto || c.Builder == "buildkit" {
		d, err := findBuildKit(c)
		if err == nil || !auto {
			return d, err
		}
	}
	if auto || c.Builder == "buildah" {
		path, err := buildah.Find()
		if err == nil {
			return found{"buildah", path, ""}, nil
		}
		if !auto {
			return found{}, err
		}
	}
	if c.Builder == "docker" {
		if at := dockerAddress(c); at != "" {
			return found{"docker", "", at}, nil
		}
		return found{}, errors.New("images.builder is docker, but no daemon socket was found: set images.builder_at")
	}
	return found{}, errNone
}

// findBuildKit finds BuildKit. It rejects versions with known vulnerabilities.
func findBuildKit(c Config) (found, error) {
	buildctl, err := exec.LookPath("buildctl")
	buildkitd, daemonErr := exec.LookPath("buildkitd")
	address := ""
	if c.Builder == "buildkit" {
		address = c.Address
	}
	if err != nil || address == "" && daemonErr != nil {
		return found{}, errors.New("images.builder is buildkit, but buildctl and either buildkitd or an address are missing: build them with hack/build-buildkit.sh")
	}
	if address != "" {
		buildkitd = buildctl
	}
	return found{"buildkit", buildctl, address}, buildkit.CheckVersion(buildkitd)
}

// dockerAddress returns the address of a Docker or Podman daemon, or "".
func dockerAddress(c Config) string {
	if c.Address != "" {
		return c.Address
	}
	for _, path := range []string{"/run/docker.sock", "/run/podman/podman.sock"} {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			return (&url.URL{Scheme: "unix", Path: path}).String()
		}
	}
	return ""
}

// Open opens the best engine of this host, with its files in dir.
func Open(dir, runc string, links dockerfile.Links, c Config) (dockerfile.Engine, error) {
	d, err := find(c)
	if err != nil {
		return nil, err
	}
	switch d.name {
	case "buildkit":
		daemon, _ := exec.LookPath("buildkitd") // find has checked that buildkitd or an address exists
		return buildkit.New(buildkit.Config{Buildctl: d.path, Buildkitd: daemon, Address: d.address, Runtime: runc, Links: links, Dir: filepath.Join(dir, "buildkit")})
	case "buildah":
		return buildah.New(buildah.Config{Path: d.path, Runtime: runc, Links: links, Dir: filepath.Join(dir, "buildah")})
	}
	return docker.New(d.address)
}

// Check is the aloft doctor check for Dockerfile builds.
func Check(c Config) container.Check {
	check := container.Check{Name: "Dockerfile builds"}
	d, err := find(c)
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
