// Package sandbox says what a command in its sandbox may touch: the noun behind
// sandbox.json. Files are parsed to a [Layer] each, the layers are merged to one
// [Policy], and a policy in a [Place] becomes [Rules], which judge paths. It does
// no I/O: who enforces it (internal/guest/sandbox) brings the files and the host.
//
// What a layer adds as a restriction never permits more, and nothing weakens
// the built-in rules of [Protections].
package sandbox

import (
	"cmp"
	"slices"

	"aloft/internal/policy"
)

// Type is how much of the workspace may be changed.
type Type string

// The types, from the widest to the narrowest.
const (
	InsecureNone Type = "insecure_none" // no sandbox at all
	ReadWrite    Type = "workspace_readwrite"
	ReadOnly     Type = "workspace_readonly"
)

// Boundary is how far reading goes.
type Boundary string

// The boundaries.
const (
	System    Boundary = "system"    // all that the user may read
	Workspace Boundary = "workspace" // the workspace, the system's programs, and what is added
)

// NetworkMode says where the network's rules come from.
type NetworkMode string

// The modes. The empty one is WithDefaults.
const (
	FileOnly     NetworkMode = "sandbox_json"
	WithDefaults NetworkMode = "sandbox_json_and_defaults" // and DefaultHosts
	AllowAll     NetworkMode = "allow_all"
)

// NetworkModes are all modes.
var NetworkModes = []NetworkMode{FileOnly, WithDefaults, AllowAll}

// DefaultHosts are where packages and sources come from.
var DefaultHosts = []string{
	"*.npmjs.org", "*.yarnpkg.com", "*.pypi.org", "*.pythonhosted.org", "*.crates.io", "*.rust-lang.org", "*.golang.org",
	"*.rubygems.org", "*.maven.org", "*.gradle.org", "*.nuget.org", "*.packagist.org", "*.hex.pm", "*.debian.org", "*.ubuntu.com",
	"*.alpinelinux.org", "*.github.com", "*.githubusercontent.com", "*.gitlab.com", "*.bitbucket.org", "*.nodejs.org",
}

// Policy is what was made of the layers.
type Policy struct {
	Type              Type
	ReadWrite         []string // beside the workspace; as written, see Place
	ReadOnly          []string // may be read, and not changed even inside what may be
	Read              []string // may be read beyond the boundary
	ReadBoundary      Boundary
	DisableTmpWrite   bool
	SharedBuildCache  bool // the caches of build tools may be changed
	Network           policy.Network
	UnrestrictedHosts bool // the network is the host's own: allow all, and nothing denied
}

// Default is the policy that no file has changed, without network.
func Default() Policy { return Layers{Mode: FileOnly}.Merge() }

// Strictest is the policy that allows least: what has to hold where nobody can
// say which one does.
func Strictest() Policy {
	p := Policy{Type: ReadOnly, ReadBoundary: Workspace, DisableTmpWrite: true}
	p.Network.Mode = policy.None
	return p
}

// Layers are the files that count, nil where there is none.
type Layers struct {
	Home, Repository, Team *Layer
	Mode                   NetworkMode
}

// strictness orders the types.
var strictness = []Type{InsecureNone, ReadWrite, ReadOnly}

func stricter(a, b Type) Type {
	if slices.Index(strictness, b) > slices.Index(strictness, a) {
		return b
	}
	return a
}

// Merge makes one policy: the repository's word over the home's, and the team's
// over both where it is the narrower. Paths and denials are united, and so is
// what is allowed unless the team has a list of its own.
func (l Layers) Merge() Policy {
	home, repo, team := orEmpty(l.Home), orEmpty(l.Repository), orEmpty(l.Team)
	p := Policy{Type: cmp.Or(repo.Type, home.Type, ReadWrite), ReadBoundary: cmp.Or(repo.ReadBoundary, home.ReadBoundary, System)}
	if team.Type != "" {
		p.Type = stricter(p.Type, team.Type)
	}
	if team.ReadBoundary == Workspace {
		p.ReadBoundary = Workspace
	}
	for _, layer := range []Layer{home, repo, team} {
		p.ReadWrite = unite(p.ReadWrite, layer.ReadWritePaths)
		p.ReadOnly = unite(p.ReadOnly, layer.ReadOnlyPaths)
		p.Read = unite(p.Read, layer.ReadPaths)
		p.DisableTmpWrite = p.DisableTmpWrite || isTrue(layer.DisableTmpWrite)
	}
	p.SharedBuildCache = isTrue(cmp.Or(repo.EnableSharedBuildCache, home.EnableSharedBuildCache, team.EnableSharedBuildCache))
	if team.EnableSharedBuildCache != nil && !*team.EnableSharedBuildCache {
		p.SharedBuildCache = false
	}
	p.Network = l.network(home.Network, repo.Network, team.Network)
	p.UnrestrictedHosts = p.Network.Mode == policy.AllowAll && l.Mode == AllowAll && len(p.Network.Deny) == 0
	return p
}

func (l Layers) network(home, repo, team *NetworkRules) policy.Network {
	var n policy.Network
	var deny, allow bool
	listed := team != nil && team.Allow != nil
	for _, rules := range []*NetworkRules{home, repo, team} {
		if rules == nil {
			continue
		}
		deny = deny || rules.Default == "deny"
		// Beside the team's allow list only the team may open the network.
		allow = allow || rules.Default == "allow" && (rules == team || !listed)
		n.Allow, n.Deny = unite(n.Allow, rules.Allow), unite(n.Deny, rules.Deny)
	}
	if l.Mode == WithDefaults || l.Mode == "" {
		n.Allow = unite(n.Allow, DefaultHosts)
	}
	if listed {
		n.Allow = slices.Clone(team.Allow)
	}
	switch {
	case l.Mode == AllowAll, allow && !deny:
		n.Mode = policy.AllowAll
	case len(n.Allow) > 0:
		n.Mode = policy.List
	default:
		n.Mode = policy.None
	}
	return n
}

func orEmpty(l *Layer) Layer {
	if l == nil {
		return Layer{}
	}
	return *l
}

func isTrue(b *bool) bool { return b != nil && *b }

// unite appends what is not there yet.
func unite(to, more []string) []string {
	there := make(map[string]bool, len(to)+len(more))
	for _, s := range to {
		there[s] = true
	}
	for _, s := range more {
		if !there[s] {
			there[s] = true
			to = append(to, s)
		}
	}
	return to
}
