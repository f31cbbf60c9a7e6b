// Package pullthrough lets the Docker of a machine pull from registries with the
// server's credentials, which never enter the machine. It answers the registry
// protocol on the streams that come from machines, and only reads.
//
// The operator's rules say which repositories of a registry a credential is used
// for, and by whose agents. Repositories that no rule names are fetched without
// a credential. The network policy of the machine applies as if the machine
// itself connected to the registry.
package pullthrough

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"aloft/internal/control/image/registry"
	"aloft/internal/policy"
)

// A Rule allows machines to pull images with the server's credential.
type Rule struct {
	// Images is a repository of the registry (team/app), all below a path
	// (team/*), or all (*).
	Images string
	// Repository is the URL of a git repository. If it is not empty, only agents
	// of people who may use that repository may pull the images.
	Repository string
}

var imagesPattern = regexp.MustCompile(`^(\*|[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*(/\*)?)$`)

// matches reports whether the rule is about a repository of the registry.
func (r Rule) matches(repository string) bool {
	if prefix, ok := strings.CutSuffix(r.Images, "*"); ok {
		return strings.HasPrefix(repository, prefix)
	}
	return repository == r.Images
}

// Check returns an error if rules are malformed, or if two have the same Images.
func Check(rules []Rule) error {
	seen := map[string]bool{}
	for _, r := range rules {
		if !imagesPattern.MatchString(r.Images) {
			return fmt.Errorf("images: invalid value %q: use a name without the registry such as team/app, team/* or *", r.Images)
		}
		if seen[r.Images] {
			return fmt.Errorf("images: duplicate value %q", r.Images)
		}
		seen[r.Images] = true
	}
	return nil
}

// Config holds the registries from which machines pull.
type Config struct {
	Client *registry.Client
	// Rules are the rules of each registry, by host or host:port. docker.io is
	// Docker Hub.
	Rules  map[string][]Rule
	Logger *slog.Logger // nil means no logging
}

// A Server answers the pull requests of machines. It is safe for concurrent use.
// A nil *Server has no registries.
type Server struct {
	client     *registry.Client
	registries map[string]source // by the host to which Docker connects
	log        *slog.Logger
}

// source is a registry from which machines pull.
type source struct {
	host  string // as in the configuration
	rules []Rule // the longest Images first
}

// hub is the host to which Docker connects for images of Docker Hub.
const hub = "registry-1.docker.io"

// New returns a server for the registries that have rules, or nil if none has.
func New(c Config) *Server {
	s := &Server{client: c.Client, registries: map[string]source{}, log: c.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for host, rules := range c.Rules {
		if len(rules) == 0 {
			continue
		}
		rules = slices.SortedFunc(slices.Values(rules), func(a, b Rule) int { return cmp.Compare(len(b.Images), len(a.Images)) })
		name := strings.TrimSuffix(host, ":443")
		if name == "docker.io" || name == "index.docker.io" {
			name = hub
		}
		s.registries[name] = source{host, rules}
	}
	if len(s.registries) == 0 {
		return nil
	}
	return s
}

// Grant says for whom requests are answered.
type Grant struct {
	ID string // id of the agent or build
	// Network returns the network policy of the machine. The zero value means
	// that the machine has no network.
	Network func() (policy.Network, error)
	// May returns an error unless the agent's person may use a git repository.
	May func(ctx context.Context, repoURL string) error
}

// Hosts returns the registries from which a machine with the given network
// policy pulls through the server.
func (s *Server) Hosts(network policy.Network) []string {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.registries)), func(host string) bool { return refusal(network, host) != "" })
}

// refusal returns the rule of the network policy that refuses a registry, or "".
func refusal(network policy.Network, host string) string {
	if network.Mode == "" {
		return "the machine has no network"
	}
	m, err := network.Compile()
	if err != nil {
		return "the network policy is invalid"
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	v := m.Name(host)
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		v = m.Address(ip, nil)
	}
	if v.Allowed {
		return ""
	}
	return v.Rule
}

// access is the decision about one repository of a registry.
type access struct {
	anonymous bool   // use no credential
	refused   string // why the machine may not pull it; "" if it may
}

// decide applies the rule of a registry whose Images matches the repository; of
// several, the one with the longest Images.
func (r source) decide(ctx context.Context, g Grant, repository string) access {
	for _, rule := range r.rules {
		if !rule.matches(repository) {
			continue
		}
		if rule.Repository != "" && g.May(ctx, rule.Repository) != nil {
			return access{refused: "the person of this agent may not use the repository to which the image belongs"}
		}
		return access{}
	}
	return access{anonymous: true}
}
