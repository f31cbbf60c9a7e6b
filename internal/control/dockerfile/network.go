package dockerfile

import (
	"context"

	"aloft/internal/policy"
)

// What a build may reach: the networks of a [Job] and of a [Builder].
const (
	// Machine is the network of machines: Job.Policy judges, outside, all that the
	// engine and the steps reach but for the images of FROM.
	Machine = "machine"
	Host    = "host" // the server's own, with its loopback and its neighbours
	None    = "none"
)

// A Link is a network namespace whose only way out judges by a policy.
type Link interface {
	Namespace() string  // a path by which it can be entered
	Nameserver() string // the address that answers there
	SetPolicy(ctx context.Context, n policy.Network) error
	Close() error
}

// Links makes a link, which keeps what it needs in the folder dir, until it is
// closed or the folder is removed.
type Links func(ctx context.Context, dir string, n policy.Network) (Link, error)

// network is what a build reaches, and why that is less than the operator has
// said, if it is.
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
		return None, n, "this engine cannot be given a machine's (images.build_network: host gives it the server's)"
	}
	return Machine, n, ""
}
