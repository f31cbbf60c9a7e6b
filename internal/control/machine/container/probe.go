package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine/container/link"
	"aloft/internal/control/machine/container/userns"
)

// A Check is the result of testing one feature of the host.
type Check struct {
	Name     string
	OK       bool
	Required bool   // machines cannot run without it
	Detail   string // the result of the test
	Fix      string // how to fix it, as a command if possible; "" if OK
}

// versionTimeout is how long a runtime may take to print its version.
const versionTimeout = 5 * time.Second

// Probe checks what this host can run. It tries each feature if possible. It
// leaves nothing behind except conf.Dir, which it creates if missing.
func Probe(ctx context.Context, conf Config) []Check {
	return []Check{
		probeRoot(),
		probeEngine(ctx, "OCI runtime", conf.RuntimePath, true, "make build puts a runc into bin/aloft; or apt-get install -y runc"),
		probeEngine(ctx, "host runc", lookPath("runc"), false, "apt-get install -y runc (only needed to replace the runc inside aloft)"),
		probeEngine(ctx, "host crun", lookPath("crun"), false, "apt-get install -y crun (only needed to replace runc)"),
		probeEngine(ctx, "gVisor runsc", or(conf.StrongRuntimePath, lookPath("runsc")), false, `hack/build-runsc.sh builds it (only needed for the class "strong")`),
		probeDocker(conf),
		probeOverlay(conf.Dir),
		probeTUN(),
		probeCgroups(),
		probeUserNamespaces(),
		probeMachineUsers(conf),
		probeLandlock(),
		probeSeccomp(),
		probeKVM(),
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func lookPath(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

func probeRoot() Check {
	c := Check{Name: "root", Required: true, OK: os.Geteuid() == 0, Detail: fmt.Sprintf("uid %d", os.Geteuid())}
	if !c.OK {
		c.Fix = "run aloft serve as root (sudo aloft serve): it mounts file systems and creates namespaces"
	}
	return c
}

func probeEngine(ctx context.Context, name, path string, required bool, fix string) Check {
	c := Check{Name: name, Required: required, Detail: "not found", Fix: fix}
	if path == "" {
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		c.Detail = fmt.Sprintf("%s does not run: %v", path, err)
		return c
	}
	first, _, _ := strings.Cut(string(out), "\n")
	if len(first) > 80 {
		first = first[:80]
	}
	c.OK, c.Fix, c.Detail = true, "", first+" at "+path
	if base := filepath.Base(path); strings.HasPrefix(base, "crun") && cgroup.Versions() == "version 1 and 2" {
		c.OK = false
		c.Detail += ", which does not support a host with both cgroup versions"
		c.Fix = "use runc, or boot with systemd.unified_cgroup_hierarchy=1"
	}
	return c
}

// probeDocker says which machines can run Docker. Under runc and crun it needs
// user namespaces, because dockerd needs all capabilities.
func probeDocker(conf Config) Check {
	c := Check{Name: "Docker inside", OK: true}
	strong := or(conf.StrongRuntimePath, lookPath("runsc"))
	err := canMap(conf.RuntimePath, conf.Dir)
	switch {
	case strings.HasPrefix(filepath.Base(conf.RuntimePath), "runsc"):
		c.Detail = "by " + conf.RuntimePath + ", without bridges and published ports"
	case err == nil && strong != "":
		c.Detail = "in machines with user namespaces, and by " + strong + " in those of class strong, without bridges and published ports"
	case err == nil:
		c.Detail = "in machines with user namespaces"
	case strong != "":
		c.Detail = "by " + strong + " in machines of class strong, without bridges and published ports; not by runc and crun: " + err.Error()
	default:
		c.OK, c.Detail = false, "not by runc and crun: "+err.Error()
		c.Fix = "see machines' users; or hack/build-runsc.sh builds gVisor's runsc: set machine.strong: PATH and machine.class: strong"
		return c
	}
	c.Detail = "if machine.docker is true: " + c.Detail
	return c
}

// probeOverlay mounts an overlay in the data folder and writes through it.
func probeOverlay(dir string) Check {
	c := Check{Name: "overlay", Required: true}
	err := tryOverlay(dir)
	if err == nil {
		c.OK, c.Detail = true, "works in "+dir
		return c
	}
	c.Detail = err.Error()
	switch {
	case errors.Is(err, unix.ENODEV):
		c.Fix = "modprobe overlay"
	case errors.Is(err, unix.EPERM), errors.Is(err, os.ErrPermission):
		c.Fix = "run as root; in a container, give it CAP_SYS_ADMIN (--privileged)"
	default:
		c.Fix = "put the data folder (--data) on ext4, xfs or btrfs, not on an overlay or a network disk; in a container, on a volume"
	}
	return c
}

func tryOverlay(dir string) error {
	return inOverlay(dir, func(root, lower, upper, work string) error {
		return layer.Mount(root, []string{lower}, upper, work)
	}, func(root string) error {
		// Overwrite a file of the lower layer: this fails if the file system lacks
		// extended attributes.
		return os.WriteFile(filepath.Join(root, "file"), []byte("above"), 0o600)
	})
}

// inOverlay mounts an overlay with one file, named file, in dir, calls do with its
// root, and unmounts it.
func inOverlay(dir string, mount func(root, lower, upper, work string) error, do func(root string) error) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	base, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	for _, d := range []string{"lower", "upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(base, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(base, "lower", "file"), []byte("below"), 0o600); err != nil {
		return err
	}
	root := filepath.Join(base, "root")
	if err := mount(root, filepath.Join(base, "lower"), filepath.Join(base, "upper"), filepath.Join(base, "work")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, layer.Unmount(root)) }()
	return do(root)
}

func probeCgroups() Check {
	c := Check{Name: "cgroups", Fix: "mount -t cgroup2 none /sys/fs/cgroup"}
	all, err := cgroup.Mounted()
	if err != nil || len(all) == 0 {
		c.Detail = "not mounted, so limits are not enforced"
		return c
	}
	var have, lack []string
	for _, name := range []string{"memory", "cpu", "pids"} {
		found := false
		for _, h := range all {
			found = found || h.Has(name)
		}
		if found {
			have = append(have, name)
		} else {
			lack = append(lack, name)
		}
	}
	c.OK = len(lack) == 0
	c.Detail = cgroup.Versions() + " with " + strings.Join(have, ", ")
	if c.OK {
		c.Fix = ""
	} else {
		c.Detail += "; without " + strings.Join(lack, ", ")
		c.Fix = "boot with cgroup_enable=memory, or delegate these controllers to this container"
	}
	return c
}

func probeTUN() Check {
	c := Check{Name: "TUN device"}
	if err := link.CanMake(); err != nil {
		c.Detail, c.Fix = err.Error(), "modprobe tun; in a container, add --device /dev/net/tun (without it machines have no network)"
		return c
	}
	c.OK, c.Detail = true, "/dev/net/tun opens"
	return c
}

func probeUserNamespaces() Check {
	c := Check{Name: "user namespaces"}
	data, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	if n := strings.TrimSpace(string(data)); err == nil && n != "0" {
		c.OK, c.Detail = true, "up to "+n
		return c
	}
	c.Detail, c.Fix = "off", "sysctl -w user.max_user_namespaces=28633"
	return c
}

// probeMachineUsers checks whether machines have user namespaces, or root in them is
// root on this host.
func probeMachineUsers(conf Config) Check {
	c := Check{Name: "machines' users", Fix: "Linux 5.19 or newer, and a data folder on ext4, xfs or btrfs; on a host that hides parts of /proc or /sys, show them to the server"}
	if strings.HasPrefix(filepath.Base(conf.RuntimePath), "runsc") {
		c.OK, c.Fix, c.Detail = true, "", "gVisor's own: no process of the host is a machine's"
		return c
	}
	if err := canMap(conf.RuntimePath, conf.Dir); err != nil {
		c.Detail = "root in machines of runc and crun is root on the host: " + err.Error()
		return c
	}
	c.OK, c.Fix = true, ""
	c.Detail = fmt.Sprintf("one user namespace per machine, with %d user ids each, from %d; files use idmapped mounts", userns.IDs, userns.FirstID)
	return c
}

func probeLandlock() Check {
	c := Check{Name: "Landlock"}
	// With this flag the call only returns the ABI version.
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 {
		c.OK, c.Detail = true, fmt.Sprintf("ABI %d", abi)
		return c
	}
	c.Detail = errno.Error()
	c.Fix = "boot a kernel of 5.13 or newer with landlock in the lsm= parameter; without it, only seccomp and the machine itself confine commands"
	return c
}

func probeSeccomp() Check {
	c := Check{Name: "seccomp", Required: true}
	data, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if err == nil && strings.Contains(string(data), "errno") {
		c.OK, c.Detail = true, strings.TrimSpace(string(data))
		return c
	}
	c.Detail, c.Fix = "not supported by the kernel", "boot a kernel with CONFIG_SECCOMP_FILTER"
	return c
}

func probeKVM() Check {
	c := Check{Name: "KVM"}
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		c.Detail, c.Fix = err.Error(), "modprobe kvm (only needed for microVMs, which need hardware virtualisation)"
		return c
	}
	c.OK, c.Detail = true, "/dev/kvm opens"
	if err := f.Close(); err != nil {
		c.Detail = err.Error()
	}
	return c
}
