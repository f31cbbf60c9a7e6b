package server

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/control/dockerfile"
	"aloft/internal/control/image"
	"aloft/internal/control/image/registry"
	"aloft/internal/control/machine/container"
	"aloft/internal/control/pullthrough"
	"aloft/internal/control/repourl"
)

// OpenImages opens the image store of the server on a data folder.
func OpenImages(data string, c Config, named ...string) (*image.Store, error) {
	from := c.registry()
	for _, name := range named {
		if host, ok := registry.Host(name); ok {
			from.Named = append(from.Named, host)
		}
	}
	return image.Open(container.ImageDir(MachinesDir(data)), image.Options{Registry: from, Recheck: c.Images.recheck(), MaxBytes: c.Machine.DiskBytes})
}

// MachinesDir returns the folder of machines in a data folder.
func MachinesDir(data string) string { return filepath.Join(data, "machines") }

// imagesConfig configures how images are pulled, built and removed.
type imagesConfig struct {
	Credentials  []registryConfig `yaml:"credentials"`
	Insecure     []string         `yaml:"insecure"`      // host:port of registries without TLS
	Recheck      string           `yaml:"recheck"`       // how long a resolved tag is cached; default 1h
	Unused       string           `yaml:"unused"`        // how long an unused image is kept; default 168h, but 1h while the disk is nearly full
	Builder      string           `yaml:"builder"`       // auto (default), buildkit, buildah, docker
	BuilderAt    string           `yaml:"builder_at"`    // address of a BuildKit or Docker daemon
	BuildNetwork string           `yaml:"build_network"` // network of RUN and ADD: machine (default), host or none
}

// registryConfig is a credential for one registry.
type registryConfig struct {
	Host     string `yaml:"host"`
	Username string `yaml:"username"`
	Token    string `yaml:"token"`
	TokenEnv string `yaml:"token_env"`
	// Machines says what the Docker of machines may pull with the credential.
	Machines []pullConfig `yaml:"machines"`
}

// pullConfig names images that machines may pull.
type pullConfig struct {
	Images     string `yaml:"images"`     // team/app, team/* or *
	Repository string `yaml:"repository"` // only for people who may use this git repository
}

// rules returns what machines may pull with the credential.
func (r registryConfig) rules() (out []pullthrough.Rule) {
	for _, m := range r.Machines {
		out = append(out, pullthrough.Rule(m))
	}
	return out
}

// pullThrough returns the server of the machines' pull requests. It is nil if no
// credential is for machines.
func (c Config) pullThrough(log *slog.Logger) *pullthrough.Server {
	rules := map[string][]pullthrough.Rule{}
	for _, r := range c.Images.Credentials {
		rules[r.Host] = r.rules()
	}
	return pullthrough.New(pullthrough.Config{Client: registry.New(c.registry()), Rules: rules, Logger: log})
}

// registry returns the configuration of the registry client.
func (c Config) registry() registry.Config {
	out := registry.Config{Insecure: c.Images.Insecure, Credentials: map[string]registry.Credential{}, Outbound: c.Outbound.Network()}
	for _, r := range c.Images.Credentials {
		out.Credentials[r.Host] = registry.Credential{Username: r.Username, Token: r.Token}
	}
	if host, ok := registry.Host(c.Machine.Image); ok {
		out.Named = append(out.Named, host)
	}
	return out
}

// recheck parses the configured time after which keys are checked again. check
// has already validated it.
func (c imagesConfig) recheck() time.Duration {
	d, _ := time.ParseDuration(c.Recheck)
	return d
}

func (c *imagesConfig) check(getenv func(string) string) error {
	switch c.Builder { // use the same variables as the engines' own programs
	case "buildkit":
		c.BuilderAt = cmp.Or(c.BuilderAt, getenv("BUILDKIT_HOST"))
	case "docker":
		c.BuilderAt = cmp.Or(c.BuilderAt, getenv("DOCKER_HOST"))
	}
	seen := map[string]bool{}
	for i := range c.Credentials {
		r := &c.Credentials[i]
		at := fmt.Sprintf("images.credentials[%d]", i)
		if r.Host == "" || strings.Contains(r.Host, "/") {
			return fmt.Errorf("%s.host: invalid host %q: use a name such as ghcr.io or registry.example.com:5000", at, r.Host)
		}
		if seen[r.Host] {
			return fmt.Errorf("%s.host: duplicate host %q", at, r.Host)
		}
		seen[r.Host] = true
		if err := pullthrough.Check(r.rules()); err != nil {
			return fmt.Errorf("%s.machines: %w", at, err)
		}
		for _, m := range r.Machines {
			if _, err := repourl.Parse(m.Repository); m.Repository != "" && err != nil {
				return fmt.Errorf("%s.machines: repository: %w", at, err)
			}
		}
		if err := fromEnv(&r.Token, r.TokenEnv, at+".token", getenv); err != nil {
			return err
		}
	}
	if d, err := time.ParseDuration(c.Recheck); err != nil || d < 0 {
		return fmt.Errorf("images.recheck: invalid duration %q: use a value such as 1h, or 0s to check every time", c.Recheck)
	}
	if d, err := time.ParseDuration(c.Unused); err != nil || d < 0 {
		return fmt.Errorf("images.unused: invalid duration %q: use a value such as 168h, or 0s to keep images forever", c.Unused)
	}
	switch c.Builder {
	case "buildkit", "docker":
	case "auto", "buildah":
		if c.BuilderAt != "" {
			return fmt.Errorf("images.builder_at requires images.builder: buildkit or docker, not %s", c.Builder)
		}
	default:
		return fmt.Errorf("images.builder: invalid value %q: must be auto, buildkit, buildah or docker", c.Builder)
	}
	switch c.BuildNetwork {
	case dockerfile.Machine, dockerfile.Host, dockerfile.None:
	default:
		return fmt.Errorf("images.build_network: invalid value %q: must be machine, host or none", c.BuildNetwork)
	}
	return nil
}
