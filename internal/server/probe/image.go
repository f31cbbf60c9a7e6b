package probe

import (
	"context"
	"fmt"

	"aloft/internal/control/image"
	"aloft/internal/control/machine/container"
)

// Image describes the capabilities of machines with the default image. It
// examines other images than "host" only when they are used.
func Image(ctx context.Context, name string) []container.Check {
	first := container.Check{Name: "default image", OK: true, Detail: name}
	if name != "host" {
		first.Detail += ": made ready when the first machine needs it"
		return []container.Check{first}
	}
	s, err := image.SummarizeHost(ctx)
	if err != nil {
		first.OK, first.Detail = false, err.Error()
		return []container.Check{first}
	}
	first.Detail += ": the programs and packages of this host"
	return append([]container.Check{first}, imageChecks(s)...)
}

func imageChecks(s image.HostSummary) []container.Check {
	packages := container.Check{Name: "packages in machines", OK: s.Apt && s.Sources > 0}
	switch {
	case !s.Apt:
		packages.Detail, packages.Fix = "no: this host has no apt", "set machine.image to an image with a package manager, for example debian:12"
	case s.Sources == 0:
		packages.Detail, packages.Fix = "no: apt has no package source that machines can use", "add one to /etc/apt/sources.list.d of this host, or set machine.image to another image"
	default:
		packages.Detail = fmt.Sprintf("apt-get, from %d sources of this host", s.Sources)
	}
	if s.Apt && s.LeftOut > 0 {
		packages.Detail += fmt.Sprintf("; %d more are left out, because they need a password or a file of this host", s.LeftOut)
	}
	if !s.Sudo {
		packages.OK, packages.Fix = false, "install sudo on this host"
		packages.Detail += "; sudo is missing"
	}
	return []container.Check{packages, installed("Docker in the image", s.Docker, "docker.io"), installed("desktop in the image", s.Desktop, "tigervnc-standalone-server")}
}

func installed(what string, is bool, pkg string) container.Check {
	if is {
		return container.Check{Name: what, OK: true, Detail: "installed"}
	}
	return container.Check{Name: what, Detail: "not installed", Fix: "install " + pkg + " on this host, or set machine.image to an image that has it"}
}
