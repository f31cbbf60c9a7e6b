package dockerfile

import (
	"context"

	"aloft/internal/policy"
)

// The networks that a build can use: the values of Network in a [Job] and a
// [Builder].
const (
	// Machine is the network of machines. Job.Policy, enforced outside of the
	// cell, applies to all connections of the engine and the steps, except for
	// the images of FROM.
	Machine = "machine"
	Host    = "host" // the server's own network, with its loopback and its neighbours
	None    = "none"
)

// A Link is a network namespace whose only way out enforces a policy.
type Link interface {
	Namespace() string  // a path for setns
	Nameserver() string // the address of its DNS server
	SetPolicy(ctx context.Context, n policy.Network) error
	Close() error
}

// Links creates a link that keeps its files in the folder dir. The link exists
// until it is closed or the folder is removed.
type Links func(ctx context.Context, dir string, n policy.Network) (Link, error)

// network returns the network of a build and, if that allows less than the
// operator configured, the reason.
func (b *Builder) network(spec Spec) (network string, n policy.Network, why string) {
	n = b.Policy
	if spec.Policy != nil {
		n = *spec.Policy
	}
	switch {
	case b.Network == None || n.Mode == "":
		return None, n, ""
	case b.Network == Host && n.Limits():
		return None, n, "the environment's network is limited, and the server's is not"
	case b.Network == Host:
		return Host, n, ""
	case !b.Engine.Confines():
		return None, n, "this engine does not support a machine's network (set images.build_network: host for the server's)"
	}
	return Machine, n, ""
}
