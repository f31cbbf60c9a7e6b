// Package sandbox defines what a command in its sandbox may access, the policy of
// sandbox.json. Each file is parsed to a [Layer], the layers are merged to one
// [Policy], and a policy in a [Scope] becomes [Rules], which judge paths. The
// package does no I/O: its caller (internal/guest/sandbox) reads the files,
// inspects the host and enforces the rules.
//
// A restriction added by a layer never permits more, and nothing weakens the
// built-in rules in [Protections].
package sandbox

import (
	"cmp"
	"slices"

	"aloft/internal/policy"
)

// Type determines how much of the workspace may be changed.
type Type string

// The types, from the least to the most restrictive.
const (
	InsecureNone Type = "insecure_none" // no sandbox
	ReadWrite    Type = "workspace_readwrite"
	ReadOnly     Type = "workspace_readonly"
)

// Boundary determines which files may be read.
type Boundary string

// The values of [Boundary].
const (
	System    Boundary = "system"    // all files that the user can read
	Workspace Boundary = "workspace" // the workspace, the system's programs, and added paths
)

// NetworkMode says where the network rules come from.
type NetworkMode string

// The modes. "" means WithDefaults.
const (
	FileOnly     NetworkMode = "sandbox_json"
	WithDefaults NetworkMode = "sandbox_json_and_defaults" // sandbox.json plus DefaultHosts
	AllowAll     NetworkMode = "allow_all"
)

// NetworkModes lists all modes.
var NetworkModes = []NetworkMode{FileOnly, WithDefaults, AllowAll}

// DefaultHosts are common sources of packages and source code.
var DefaultHosts = []string{
	"*.npmjs.org", "*.yarnpkg.com", "*.pypi.org", "*.pythonhosted.org", "*.crates.io", "*.rust-lang.org", "*.golang.org",
	"*.rubygems.org", "*.maven.org", "*.gradle.org", "*.nuget.org", "*.packagist.org", "*.hex.pm", "*.debian.org", "*.ubuntu.com",
	"*.alpinelinux.org", "*.github.com", "*.githubusercontent.com", "*.gitlab.com", "*.bitbucket.org", "*.nodejs.org",
}

// Policy is the result of merging layers.
type Policy struct {
	Type              Type
	ReadWrite         []string // in addition to the workspace; as written, see [Policy.In]
	ReadOnly          []string // readable, but not writable even inside a writable path
	Read              []string // readable beyond the boundary
	ReadBoundary      Boundary
	DisableTmpWrite   bool
	SharedBuildCache  bool // the caches of build tools are writable
	Network           policy.Network
	UnrestrictedHosts bool // all hosts are allowed and none denied, so the command uses the host's network directly
}

// Default returns the policy that applies without any file. It has no network.
func Default() Policy { return Layers{Mode: FileOnly}.Merge() }

// Strictest returns the most restrictive policy, for use when the real policy cannot be
// determined.
func Strictest() Policy {
	p := Policy{Type: ReadOnly, ReadBoundary: Workspace, DisableTmpWrite: true}
	p.Network.Mode = policy.None
	return p
}

// Layers are the files to merge; nil for missing ones.
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

// Merge combines the layers. The repository's values override the home folder's, and the
// team's override both if they are stricter. Paths and deny rules of all layers apply.
// So do allow rules, unless the team has its own allow list.
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
		// If the team has an allow list, only the team can open the network.
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

// unite returns the list to, with the elements of more that it lacks appended.
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
