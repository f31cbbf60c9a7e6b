package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine/container/userns"
)

// gvisorDockerCapabilities are the capabilities of a gVisor machine that may
// run Docker. They apply only to the machine's own kernel.
var gvisorDockerCapabilities = append(slices.Clone(capabilities),
	"CAP_DAC_READ_SEARCH", "CAP_MKNOD", "CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_RESOURCE",
)

// dockerCapabilities are the capabilities of a runc or crun machine that may run
// Docker: all, since "docker run --privileged" fails if one is missing. They apply
// only within the machine's user namespace.
var dockerCapabilities = append(slices.Clone(gvisorDockerCapabilities),
	"CAP_AUDIT_CONTROL", "CAP_AUDIT_READ", "CAP_BLOCK_SUSPEND", "CAP_BPF", "CAP_CHECKPOINT_RESTORE", "CAP_IPC_LOCK", "CAP_IPC_OWNER",
	"CAP_LEASE", "CAP_LINUX_IMMUTABLE", "CAP_MAC_ADMIN", "CAP_MAC_OVERRIDE", "CAP_NET_BROADCAST", "CAP_PERFMON", "CAP_SYSLOG", "CAP_SYS_BOOT",
	"CAP_SYS_MODULE", "CAP_SYS_NICE", "CAP_SYS_PACCT", "CAP_SYS_RAWIO", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_WAKE_ALARM",
)

// dockerFilterCapabilities are the capabilities whose system calls the filter
// of a machine with dockerCapabilities allows.
var dockerFilterCapabilities = append(slices.Clone(capabilities), "CAP_SYS_ADMIN", "CAP_SYS_PTRACE")

// filterCapabilities returns the capabilities whose system calls a machine's filter
// allows.
func filterCapabilities(docker bool) []string {
	if docker {
		return dockerFilterCapabilities
	}
	return capabilities
}

// dockerDir is where dockerd keeps images, containers and volumes. Its storage
// driver overlay2 does not work on the machine's own overlay.
const dockerDir = "/var/lib/docker"

// dockerNetworkEnv tells pod-daemon that containers can only use the machine's own
// network.
const dockerNetworkEnv = "ALOFT_DOCKER_NETWORK=host"

// allowGVisorDocker changes a gVisor bundle so that the machine can run dockerd with
// gvisorOptions. dockerDir is in memory and lost when the machine stops.
func allowGVisorDocker(c *specs.Spec) {
	c.Process.Env = append(c.Process.Env, dockerNetworkEnv)
	setCapabilities(c, gvisorDockerCapabilities)
	makeCgroupsWritable(c)
	c.Mounts = append(c.Mounts, specs.Mount{Destination: dockerDir, Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=710"}})
}

// allowDocker changes the bundle of a runc or crun machine, which must have a
// user namespace, so that root in it can run dockerd. The host's folders in the
// machine, and its dockerDir, must have been mounted by mountForDocker.
func allowDocker(c *specs.Spec, host facts) {
	setCapabilities(c, dockerCapabilities)
	makeCgroupsWritable(c)
	// dockerd starts containers with OOM score adjustment 0. If a process with
	// CAP_SYS_RESOURCE has set a score, root in the machine cannot lower it.
	// pod-daemon raises its own score.
	score := max(0, host.oomScoreAdj)
	c.Process.OOMScoreAdj = &score
	// The kernel refuses to mount /proc and /sys in a container if parts of the
	// machine's own /proc and /sys are hidden or read-only. Files there that
	// would give power over the host belong to the host's root, which has no
	// user id in the machine.
	c.Linux.MaskedPaths, c.Linux.ReadonlyPaths = nil, nil
	for i, m := range c.Mounts {
		if m.Destination == "/sys" {
			c.Mounts[i].Options = []string{"nosuid", "noexec", "nodev"}
		}
	}
	if host.raiseLimits {
		// "service docker start" sets these limits, and root in the machine may
		// not raise them. The cgroup limits the number of processes.
		c.Process.Rlimits = []specs.POSIXRlimit{
			{Type: "RLIMIT_NOFILE", Soft: 1 << 16, Hard: 1 << 20},
			{Type: "RLIMIT_NPROC", Soft: unix.RLIM_INFINITY, Hard: unix.RLIM_INFINITY},
		}
	}
}

// mountForDocker mounts the machine's Docker data and the host's folders of its
// image in the machine's root file system, which is mounted at root. It must be
// called inside runApart. Root in the machine cannot unmount these mounts or
// change their flags, because they exist before the machine's own mount
// namespace. The mounts of the OCI runtime have no such protection.
func (m *Machine) mountForDocker(rec record, root string, space *userns.Space) error {
	// Allow devices on this mount, because BuildKit fails on a mount with
	// nodev. It contains no devices, since root in a machine cannot create
	// devices.
	if err := bindIn(root, dockerDir, m.path(dockerData), space.First, space.Layers, 0); err != nil {
		return err
	}
	for _, b := range rec.Image.Binds {
		if err := bindIn(root, b.Target, b.Source, space.First, space.Layers, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	return nil
}

// bindIn mounts the host folder source at the folder target of a machine's root.
// If the folder is missing, bindIn creates it for owner. Links are resolved within
// the root.
func bindIn(root, target, source string, owner int, ids *os.File, attributes uint64) error {
	at, err := openAt(root, target, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeFolders(root, target, owner); err != nil {
			return err
		}
		at, err = openAt(root, target, unix.O_PATH|unix.O_DIRECTORY)
	}
	if err != nil {
		return err
	}
	defer func() { _ = at.Close() }()
	return layer.BindMapped(source, at, ids, attributes)
}

// makeFolders creates the missing folders on the path to target in root.
func makeFolders(root, target string, owner int) error {
	in, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	path := ""
	for name := range strings.SplitSeq(strings.Trim(target, "/"), "/") {
		path = filepath.Join(path, name)
		err := in.Mkdir(path, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err := errors.Join(err, in.Lchown(path, owner, owner)); err != nil {
			return err
		}
	}
	return nil
}

func setCapabilities(c *specs.Spec, all []string) {
	c.Process.Capabilities = &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all}
}

func makeCgroupsWritable(c *specs.Spec) {
	for i, m := range c.Mounts {
		if m.Destination == "/sys/fs/cgroup" {
			c.Mounts[i].Options = []string{"nosuid", "noexec", "nodev", "relatime"}
		}
	}
}

// openIn opens the regular file path in dir.
func openIn(dir, path string, flags uint64) (*os.File, error) {
	f, err := openAt(dir, path, flags)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openAt opens path in dir. Links are resolved within dir, since machines can place
// links in it.
func openAt(dir, path string, flags uint64) (*os.File, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(root) }()
	fd, err := unix.Openat2(root, path, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// canRaiseLimits reports whether this process may raise resource limits.
func canRaiseLimits() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// dockerDefaults is the file that "service docker start" reads as a part of its
// shell script.
const dockerDefaults = "etc/default/docker"

// fileSystems is the table of file systems to mount.
const fileSystems = "etc/fstab"

// cgroupsMounted is added to fileSystems. "service docker start" then mounts no
// cgroup hierarchies. The machine has those that the host has mounted; in
// others, the kernel lets it create no cgroups, and containers would not start.
const cgroupsMounted = `
# Added by Aloft: the cgroups of this machine are mounted.
cgroup /sys/fs/cgroup cgroup noauto 0 0
`

// keepLimits is added to dockerDefaults if the server may not raise resource
// limits, because otherwise the service would not start.
const keepLimits = `
# Added by Aloft, whose server may not raise these limits.
ulimit() { command ulimit "$@" 2>/dev/null || :; }
`

// gvisorOptions is added to dockerDefaults in gVisor machines, where dockerd
// can neither filter packets nor create bridges.
const gvisorOptions = `
# Added by Aloft: gVisor has no packet filter and no bridges.
DOCKER_OPTS="$DOCKER_OPTS --iptables=false --ip6tables=false --bridge=none"
`

// appendLines adds lines to the machine's own file name, unless the file already
// contains them.
func (m *Machine) appendLines(rec record, name, lines string) error {
	var old []byte
	for _, dir := range append([]string{m.path("upper")}, rec.lower()...) {
		f, err := openIn(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
		if err != nil {
			continue
		}
		old, err = io.ReadAll(io.LimitReader(f, 64<<10))
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		break
	}
	if strings.Contains(string(old), lines) {
		return nil
	}
	root, err := os.OpenRoot(m.path("upper"))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return root.WriteFile(name, append(old, lines...), 0o644)
}

// prepareDocker creates the folders and cgroups that dockerd needs. owner is
// the host's id for root in the machine.
func (m *Machine) prepareDocker(ctx context.Context, rec record, owner int) error {
	if err := m.makeDockerData(ctx, rec); err != nil {
		return err
	}
	if err := m.appendLines(rec, fileSystems, cgroupsMounted); err != nil {
		return err
	}
	if !canRaiseLimits() {
		if err := m.appendLines(rec, dockerDefaults, keepLimits); err != nil {
			return err
		}
	}
	return m.delegateCgroups(owner)
}

// delegateCgroups creates the cgroup of the machine's own processes and lets
// owner (root in the machine) create cgroups in it. Only the host can change
// the limits of this cgroup and of its parent.
func (m *Machine) delegateCgroups(owner int) error {
	all, err := cgroup.Mounted()
	if err != nil {
		return err
	}
	for _, h := range all {
		dir := filepath.Join(h.Dir, m.inside())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, name := range []string{"", "cgroup.procs", "tasks", "cgroup.threads", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(dir, name), owner, owner); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
