package container

import (
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// dockerCapabilities are the capabilities that dockerd and its containers need
// in addition to the usual ones. Under gVisor they apply only to the machine's
// own kernel; under runc they would allow an escape to the host.
var dockerCapabilities = []string{
	"CAP_DAC_READ_SEARCH", "CAP_MKNOD", "CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_RESOURCE",
}

// dockerDir is where dockerd keeps images and containers. It cannot be on an
// overlay, so it is in memory and lost when the machine stops.
const dockerDir = "/var/lib/docker"

// allowDocker changes a gVisor bundle so that the machine can run dockerd
// --iptables=false --ip6tables=false --bridge=none.
func allowDocker(c *specs.Spec) {
	all := append(slices.Clone(capabilities), dockerCapabilities...)
	c.Process.Capabilities = &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all}
	for i, m := range c.Mounts {
		if m.Destination == "/sys/fs/cgroup" {
			c.Mounts[i].Options = []string{"nosuid", "noexec", "nodev", "relatime"}
		}
	}
	c.Mounts = append(c.Mounts, specs.Mount{Destination: dockerDir, Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=710"}})
}
