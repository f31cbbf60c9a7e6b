// Package probe examines this host for `aloft doctor`: git, the sandbox, the
// unpacking of images, and the capabilities of machines with the default image.
package probe

import (
	"errors"
	"os"

	"aloft/internal/control/gateway"
	"aloft/internal/control/machine/container"
)

// Git checks whether git is installed, and whether this host can confine it.
func Git() (check container.Check, err error) {
	check = container.Check{Name: "git, confined", Detail: "a user of its own, out of view of the server's files"}
	dir, err := os.MkdirTemp("", "aloft-doctor-")
	if err != nil {
		return check, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g, err := gateway.New(gateway.Config{Dir: dir, Environ: os.Environ()})
	if err != nil {
		check.Name, check.Required, check.Detail, check.Fix = "git", true, err.Error(), "apt-get install -y git"
		return check, nil
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if why := g.Unconfined(); why != nil {
		check.Detail = "git runs as the server's own user: " + why.Error()
		check.Fix = "run the server as root on Linux 5.12 or newer, and let it create mount and PID namespaces"
		return check, nil
	}
	check.OK = true
	return check, nil
}
