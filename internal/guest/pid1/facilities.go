package pid1

import (
	"bufio"
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/guest/checkout"
	"aloft/internal/wire/podv1"
)

// facilitiesLimit is the timeout for detecting the machine's facilities. sudo
// usually answers in 20 ms.
const facilitiesLimit = 5 * time.Second

// packageManagers are the programs that install packages, the preferred ones first.
var packageManagers = []string{"apt-get", "dnf", "microdnf", "yum", "apk", "zypper", "pacman"}

// dockerNetworkEnv is in the environment of a machine whose Docker cannot create
// bridges.
const dockerNetworkEnv = "ALOFT_DOCKER_NETWORK=host"

// facilities detects the rights and programs that the agent's user has on the
// machine.
func (d *Daemon) facilities(ctx context.Context) *podv1.Facilities {
	ctx, cancel := context.WithTimeout(ctx, facilitiesLimit)
	defer cancel()
	// dockerd and package managers may be in folders that only root's PATH has.
	env := append(d.ownEnviron(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	f := &podv1.Facilities{
		System: systemName(), Root: d.user.Load().UID == 0, Docker: podv1.Facilities_DOCKER_INSTALLABLE,
		Desktop: lookPath("Xtigervnc", env) != "", DockerHostNetwork: slices.Contains(d.cfg.Environ, dockerNetworkEnv),
	}
	for _, name := range packageManagers {
		if lookPath(name, env) != "" {
			f.PackageManager = name
			break
		}
	}
	if !f.GetRoot() && lookPath("sudo", env) != "" {
		code, err := d.runIn(ctx, env, checkout.Command{Args: []string{lookPath("sudo", env), "-n", "true"}})
		f.Root = err == nil && code == 0
	}
	switch {
	case !mayHave(unix.CAP_SYS_ADMIN) || !mayHave(unix.CAP_NET_ADMIN):
		f.Docker = podv1.Facilities_DOCKER_REFUSED
	case lookPath("dockerd", env) != "":
		f.Docker = podv1.Facilities_DOCKER_INSTALLED
	}
	return f
}

// systemName returns the name of the distribution, or "" if it is unknown.
func systemName() string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		defer func() { _ = file.Close() }()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME="); ok {
				return strings.Trim(name, `"'`)
			}
		}
	}
	return ""
}

// mayHave reports whether root in the machine may have a capability, according to the
// bounding set.
func mayHave(capability uint) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if set, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return err == nil && bits>>capability&1 == 1
		}
	}
	return false
}
