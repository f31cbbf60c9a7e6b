package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/image"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/seccomp"
)

// hostPaths holds the host paths of a machine's parts.
type hostPaths struct {
	rootfs string
	run    string
	cgroup string // absolute, relative to the root of each hierarchy
	netns  string // path of the network namespace; "" means a new one with loopback only
	userns string // path of the user namespace; "" means the host's
	docker bool   // the machine may run Docker, by means of mountForDocker and allowDocker
}

// facts are the properties of the host that the bundle depends on.
type facts struct {
	arch        string // as in GOARCH
	kernel      [2]int
	oomScoreAdj int  // of this process; lowering it needs a privilege
	swapLimit   bool // the kernel can limit memory plus swap
	raiseLimits bool // this process may raise resource limits
}

// capabilities are Docker's default without CAP_MKNOD. They suffice for apt-get
// and sudo, and affect nothing outside of the namespaces.
var capabilities = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
	"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

var maskedPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
	"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
}

var readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// machineOOMScoreAdj makes the kernel kill a machine's processes before the
// server when the host runs out of memory.
const machineOOMScoreAdj = 500

const bundlePath = "/etc/ssl/certs/ca-certificates.crt" // package image puts it there

// defaultEnv is the environment of every machine, which its spec can override.
// The CA variables are for programs that do not use the system's CA bundle.
var defaultEnv = map[string]string{
	"PATH":                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"LANG":                "C.UTF-8",
	"SSL_CERT_FILE":       bundlePath,
	"NODE_EXTRA_CA_CERTS": bundlePath,
	"GIT_SSL_CAINFO":      bundlePath,
	"CURL_CA_BUNDLE":      bundlePath,
	"REQUESTS_CA_BUNDLE":  bundlePath,
	"PIP_CERT":            bundlePath,
}

// socketEnv is the variable that tells pod-daemon on which socket to listen.
const socketEnv = "ALOFT_POD_SOCKET"

func checkSpec(spec machine.Spec) error {
	for k, v := range spec.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return fmt.Errorf("environment variable %q: a name must not contain =, and neither name nor value a NUL byte", k)
		}
	}
	if _, err := spec.Network.Compile(); err != nil {
		return err
	}
	l := spec.Limits
	if l.MemoryBytes < 0 || l.CPUs < 0 || l.PIDs < 0 || l.GuaranteedMemoryBytes < 0 || l.GuaranteedCPUs < 0 {
		return errors.New("limits must not be negative; 0 means no limit")
	}
	if l.MemoryBytes > 0 && l.GuaranteedMemoryBytes > l.MemoryBytes || l.CPUs > 0 && l.GuaranteedCPUs > l.CPUs {
		return errors.New("a machine cannot be guaranteed more than its maximum")
	}
	if m := spec.Limits.MemoryBytes; m != 0 && m < minMemory {
		return fmt.Errorf("memory limit of %d bytes: a machine needs at least %d MiB", m, minMemory>>20)
	}
	return nil
}

const minMemory = 32 << 20

// bundleConfig returns the config.json of a machine's OCI bundle.
func bundleConfig(spec machine.Spec, img image.Image, at hostPaths, eng engine, host facts) ([]byte, error) {
	filter, err := seccomp.Machine(host.arch, host.kernel, filterCapabilities(at.docker), at.docker)
	if err != nil {
		return nil, err
	}
	binds := img.Binds
	if at.docker {
		binds = nil // mountForDocker mounts them
	}
	oom := max(machineOOMScoreAdj, host.oomScoreAdj)
	c := specs.Spec{
		Version:  "1.0.2",
		Hostname: "cursor",
		Root:     &specs.Root{Path: at.rootfs},
		Process: &specs.Process{
			Args: []string{"/pod-daemon"},
			Env:  environ(img.Config.Env, spec.Env),
			Cwd:  "/",
			Capabilities: &specs.LinuxCapabilities{
				Bounding: capabilities, Effective: capabilities, Permitted: capabilities,
			},
			NoNewPrivileges: false, // sudo needs setuid
			OOMScoreAdj:     &oom,
		},
		Mounts: mounts(at.run, binds, at.userns != ""),
		Linux: &specs.Linux{
			CgroupsPath: at.cgroup,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.MountNamespace}, {Type: specs.PIDNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.NetworkNamespace, Path: at.netns}, {Type: specs.CgroupNamespace},
			},
			Resources:     resources(spec.Limits, host),
			MaskedPaths:   maskedPaths,
			ReadonlyPaths: readonlyPaths,
			Seccomp:       filter,
		},
	}
	if at.userns != "" {
		c.Linux.Namespaces = append(c.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace, Path: at.userns})
	}
	if eng.gvisor {
		c.Linux.Resources = resources(gvisorLimits(spec.Limits), host)
		// gVisor's own kernel handles the machine's system calls: a seccomp profile
		// would be ignored, with a warning on each start.
		c.Linux.Seccomp = nil
	}
	if eng.docker && eng.gvisor {
		allowGVisorDocker(&c)
	}
	if at.docker {
		allowDocker(&c, host)
	}
	return json.Marshal(c)
}

// environ returns the environment of pod-daemon: the defaults, then the image's
// variables, then the spec's. Later values win.
func environ(image []string, own map[string]string) []string {
	all := maps.Clone(defaultEnv)
	for _, e := range image {
		if k, v, ok := strings.Cut(e, "="); ok && k != "" && !strings.Contains(e, "\x00") {
			all[k] = v
		}
	}
	maps.Copy(all, own)
	all[socketEnv] = "/run/aloft/" + socketName
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, k+"="+all[k])
	}
	return out
}

// mounts returns the mounts over the root. In a user namespace, the owners of
// the host's files are mapped.
func mounts(run string, binds []image.Bind, mapped bool) []specs.Mount {
	m := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=1048576k"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"}},
		{Destination: "/run", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=755", "size=262144k"}},
		{Destination: "/run/aloft", Type: "bind", Source: run, Options: []string{"bind", "rprivate", "nosuid", "nodev", "noexec"}},
	}
	for _, b := range binds {
		options := []string{"bind", "rprivate", "ro", "nodev"}
		if mapped {
			options = append(options, "idmap")
		}
		m = append(m, specs.Mount{Destination: b.Target, Type: "bind", Source: b.Source, Options: options})
	}
	return m
}

// gvisorLimits returns the limits to set on the host so that the machine can
// use the limits of its spec. gVisor's kernel shares the cgroup: it needs
// memory for itself, and host threads for the machine's threads. Reaching the
// memory limit ends the machine.
func gvisorLimits(l machine.Limits) machine.Limits {
	if l.MemoryBytes > 0 {
		l.MemoryBytes += 64 << 20
	}
	if l.PIDs > 0 {
		l.PIDs = 4*l.PIDs + 256
	}
	return l
}

func resources(l machine.Limits, host facts) *specs.LinuxResources {
	r := &specs.LinuxResources{
		// Allow only the devices that every runtime adds: null, zero, tty and so
		// on.
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
	}
	if l.MemoryBytes > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.MemoryBytes}
		if host.swapLimit {
			r.Memory.Swap = &l.MemoryBytes // memory plus swap, so no extra swap
		}
	}
	if l.GuaranteedMemoryBytes > 0 { // memory.low of cgroup v2, the soft limit of v1
		if r.Memory == nil {
			r.Memory = &specs.LinuxMemory{}
		}
		r.Memory.Reservation = &l.GuaranteedMemoryBytes
	}
	if l.CPUs > 0 {
		period := uint64(100_000)
		quota := max(int64(l.CPUs*float64(period)), 1000) // the kernel's minimum
		r.CPU = &specs.LinuxCPU{Period: &period, Quota: &quota}
	}
	if l.GuaranteedCPUs > 0 {
		if r.CPU == nil {
			r.CPU = &specs.LinuxCPU{}
		}
		shares := cgroup.Shares(l.GuaranteedCPUs)
		r.CPU.Shares = &shares // the runtime converts it to the weight of cgroup v2
	}
	if l.PIDs > 0 {
		r.Pids = &specs.LinuxPids{Limit: &l.PIDs}
	}
	return r
}
