package policy

import (
	"fmt"
	"slices"
)

// Narrow returns the policy that allows a connection only if both policies do.
// Nothing in child, not even its Open or mode, allows what parent refuses.
func Narrow(parent, child Network) Network {
	if parent.Narrower == nil {
		parent.Narrower = &child
		return parent
	}
	inner := Narrow(*parent.Narrower, child)
	parent.Narrower = &inner
	return parent
}

// The network modes of an environment, which determine how the environment's list
// combines with the team's.
const (
	EnvironmentAllowAll     = "allow_all"                     // all hosts that the parent allows
	EnvironmentParentPlus   = "parent_plus_network_settings"  // the parent's list and the environment's
	EnvironmentDefaultPlus  = "default_with_network_settings" // the default list and the environment's
	EnvironmentSettingsOnly = "network_settings_only"         // only the environment's list
)

// ForEnvironment returns the policy requested by an environment, given its mode and its
// list of domains, addresses and ranges. The mode "" requests nothing. Pass the result
// as child to [Narrow]: the author of an environment must not widen the network, so
// additions to the parent's list have an effect only if the parent allows them anyway.
func ForEnvironment(mode string, allow []string) (Network, error) {
	n := Network{Mode: AllowAll}
	switch mode {
	case "", EnvironmentAllowAll, EnvironmentParentPlus:
	case EnvironmentDefaultPlus:
		n = Network{Mode: List, Allow: slices.Concat(defaultHosts, allow)}
	case EnvironmentSettingsOnly:
		n = Network{Mode: List, Allow: slices.Clone(allow)}
	default:
		return Network{}, fmt.Errorf("invalid network mode %q: must be %s, %s, %s or %s", mode,
			EnvironmentAllowAll, EnvironmentParentPlus, EnvironmentDefaultPlus, EnvironmentSettingsOnly)
	}
	// An invalid entry is an error in every mode, so that it does not go
	// unnoticed until the mode changes.
	if _, err := (Network{Mode: List, Allow: allow}).Compile(); err != nil {
		return Network{}, err
	}
	return n, nil
}

// defaultHosts are common sources of packages and source code.
var defaultHosts = []string{
	// Hosts of source code.
	"*.github.com", "*.githubusercontent.com", "*.githubassets.com", "*.ghcr.io", "*.gitlab.com", "*.bitbucket.org", "*.codeberg.org", "*.sr.ht",
	// Packages of Debian, Ubuntu, Alpine, Fedora and Arch.
	"*.debian.org", "*.ubuntu.com", "*.launchpad.net", "*.alpinelinux.org", "*.fedoraproject.org", "*.archlinux.org",
	// JavaScript.
	"*.npmjs.org", "*.npmjs.com", "*.yarnpkg.com", "*.nodejs.org", "*.jsr.io", "*.deno.land", "*.bun.sh",
	// Python.
	"*.pypi.org", "*.pythonhosted.org", "*.python.org", "*.astral.sh", "*.anaconda.org", "*.anaconda.com",
	// Go.
	"*.golang.org", "*.go.dev", "gopkg.in", "*.googlesource.com",
	// Rust.
	"*.rust-lang.org", "*.crates.io", "*.rustup.rs",
	// Java and Kotlin.
	"*.maven.org", "*.maven.apache.org", "*.gradle.org", "*.gradle-dn.com",
	// Ruby, PHP, .NET, Elixir, Dart, Haskell, Perl, R, Swift, C++.
	"*.rubygems.org", "*.ruby-lang.org", "*.packagist.org", "*.getcomposer.org", "*.nuget.org", "*.dot.net", "*.hex.pm",
	"*.pub.dev", "*.dart.dev", "*.haskell.org", "*.cpan.org", "*.metacpan.org", "*.r-project.org", "*.swift.org", "*.conan.io",
	// Images and tools.
	"*.docker.io", "*.docker.com", "*.quay.io", "*.nixos.org", "*.brew.sh", "*.hashicorp.com", "*.terraform.io",
}
