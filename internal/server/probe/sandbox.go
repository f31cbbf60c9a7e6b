package probe

import (
	"strings"

	"aloft/internal/control/machine/container"
	"aloft/internal/guest/sandbox"
)

// Sandbox checks whether this host can sandbox single commands.
func Sandbox() container.Check {
	k := sandbox.Probe()
	c := container.Check{Name: "sandbox", OK: k.Landlock >= 6 && k.Namespaces, Detail: sandbox.Describe(k)}
	if !c.OK {
		c.Fix = strings.Join(append(sandbox.Hints(), "use Linux 6.12 or later, with CONFIG_SECURITY_LANDLOCK and landlock in lsm= on the kernel command line"), "; ")
	}
	return c
}
