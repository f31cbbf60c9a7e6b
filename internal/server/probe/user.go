package probe

import (
	"fmt"
	"os"

	"aloft/internal/control/machine/container"
	"aloft/internal/server/unprivileged"
)

// User describes the user that the server would run as if the current user
// started it.
func User() container.Check {
	c := container.Check{Name: "server, unprivileged"}
	if os.Geteuid() != 0 {
		c.Detail, c.Fix = "only root can start the host-daemon, which creates machines", "sudo -E aloft serve, or the packages' services"
		return c
	}
	u, err := unprivileged.FindUser("")
	if err != nil {
		c.Detail, c.Fix = err.Error(), "check the user "+unprivileged.UserName+" in /etc/passwd"
		return c
	}
	c.OK, c.Detail = true, fmt.Sprintf("it runs as user %d, and a host-daemon of root creates machines", u.ID)
	return c
}
