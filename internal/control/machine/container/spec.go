package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aloft/internal/control/image"
	"aloft/internal/control/machine"
)

// place says where a machine's parts lie on the host.
type place struct {
	rootfs string
	run    string
	cgroup string // absolute, below the root of each hierarchy
	netns  string // the network namespace; "" is a new one with loopback only
}

// facts are what the bundle depends on of the host.
type facts struct {
	arch        string // as Go names it
	kernel      [2]int
	oomScoreAdj int  // of this process: lower needs a privilege
	swapLimit   bool // the kernel can bound memory and swap together
}

// capabilities are Docker's default without CAP_MKNOD: enough for apt-get and sudo,
// nothing that reaches out of the namespaces, and no devices.
var capabilities = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
	"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

var maskedPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
	"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
}

var readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// machineOOMScoreAdj lets the kernel take a machine's processes before the
// server's when the host runs out of memory.
const machineOOMScoreAdj = 500

const bundlePath = "/etc/ssl/certs/ca-certificates.crt" // where package image puts it

// defaultEnv is what every machine has unless its spec says otherwise. The
// variables of the CA bundle are for the programs that do not ask the system.
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

// socketEnv tells pod-daemon where to listen.
const socketEnv = "ALOFT_POD_SOCKET"

func checkSpec(spec machine.Spec) error {
	for k, v := range spec.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return fmt.Errorf("environment variable %q: a name has no = and neither part a NUL", k)
		}
	}
	if _, err := spec.Network.Compile(); err != nil {
		return err
	}
	if l := spec.Limits; l.MemoryBytes < 0 || l.CPUs < 0 || l.PIDs < 0 {
		return errors.New("limits are not negative; 0 is no limit")
	}
	if m := spec.Limits.MemoryBytes; m != 0 && m < minMemory {
		return fmt.Errorf("memory limit of %d bytes: a machine needs at least %d MiB", m, minMemory>>20)
	}
	return nil
}

const minMemory = 32 << 20

// bundleConfig is the config.json of a machine's OCI bundle.
func bundleConfig(spec machine.Spec, img image.Image, at place, eng engine, host facts) ([]byte, error) {
	seccomp, err := machineFilter(host.arch, host.kernel)
	if err != nil {
		return nil, err
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
			NoNewPrivileges: false, // sudo has to work
			OOMScoreAdj:     &oom,
		},
		Mounts: mounts(at.run, img.Binds),
		Linux: &specs.Linux{
			CgroupsPath: at.cgroup,
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.MountNamespace}, {Type: specs.PIDNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.NetworkNamespace, Path: at.netns}, {Type: specs.CgroupNamespace},
			},
			Resources:     resources(spec.Limits, host),
			MaskedPaths:   maskedPaths,
			ReadonlyPaths: readonlyPaths,
			Seccomp:       seccomp,
		},
	}
	if eng.gvisor {
		c.Linux.Resources = resources(gvisorLimits(spec.Limits), host)
		// Its own kernel answers the machine's system calls: the host's filter
		// would only be ignored, with a warning each time.
		c.Linux.Seccomp = nil
	}
	if eng.docker {
		allowDocker(&c)
	}
	return json.Marshal(c)
}

// environ is what pod-daemon starts with: what every machine has, what the image
// says, and what the machine's spec does, the later winning.
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

func mounts(run string, binds []image.Bind) []specs.Mount {
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
		m = append(m, specs.Mount{Destination: b.Target, Type: "bind", Source: b.Source, Options: []string{"bind", "rprivate", "ro", "nodev"}})
	}
	return m
}

// gvisorLimits are the limits on the host that leave a machine those of its
// spec: gVisor's own kernel lives in the same cgroup. It takes memory, and host
// threads for what the machine runs. Reaching the memory limit ends the machine.
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
		// Only the devices that every runtime adds by itself: null, zero, tty and their like.
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
	}
	if l.MemoryBytes > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.MemoryBytes}
		if host.swapLimit {
			r.Memory.Swap = &l.MemoryBytes // no swap on top of the limit
		}
	}
	if l.CPUs > 0 {
		period := uint64(100_000)
		quota := max(int64(l.CPUs*float64(period)), 1000) // the kernel's least
		r.CPU = &specs.LinuxCPU{Period: &period, Quota: &quota}
	}
	if l.PIDs > 0 {
		r.Pids = &specs.LinuxPids{Limit: &l.PIDs}
	}
	return r
}
