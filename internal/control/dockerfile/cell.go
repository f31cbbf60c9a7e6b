package dockerfile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
)

// Paths of a build's parts inside its [Cell].
const (
	InContext = "/context" // the build context
	InWork    = "/work"    // the job's folder Work
	InKept    = "/kept"    // the engine's caches for the repository
	InBases   = "/bases"   // the base images of the build
	InBin     = "/aloft"   // programs that the engine needs, by base name
)

// cellIDs is the number of user ids in a cell.
const cellIDs = 65536

// firstCellID and cellRanges define which user ids of the host cells use. They
// are above those of normal users, of /etc/subuid, and of systemd's containers.
const (
	firstCellID = 0x70000000
	cellRanges  = 0x0ffe
)

// Limits are the resource limits of one build. 0 means no limit.
type Limits struct {
	MemoryBytes int64
	CPUs        float64
	PIDs        int64
	Time        time.Duration
}

// A Cell isolates an engine and the steps of one build. A cell is a container
// in a user namespace; its root user has no rights on the host. Its root file
// system contains only the host's /usr, read-only, and the build's own folders,
// so even an engine that is tricked can reach no other files.
type Cell struct {
	Runtime  string   // path of runc
	Programs []string // host paths of further programs, placed in [InBin]
	Kept     string   // host folder mounted at InKept
	Job      Job
	Link     Link     // the cell's network; if nil, the job chooses between the server's network and none
	Env      []string // in the form NAME=VALUE
}

// CanContain returns nil if this host can create cells.
func CanContain() error {
	cmd := exec.Command("/bin/true") //nolint:noctx // it exits at once
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: firstCellID, Size: cellIDs}},
		GidMappings: []syscall.SysProcIDMap{{HostID: firstCellID, Size: cellIDs}},
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("this host does not allow user namespaces, so builds of Dockerfiles would run as root: %w", err)
	}
	return nil
}

// Inside returns the path inside the cell of a file below the job's folder
// Work.
func (c Cell) Inside(path string) string {
	rel, err := filepath.Rel(c.Job.Work, path)
	if err != nil {
		return path
	}
	return filepath.Join(InWork, rel)
}

// cellScript prepares the root file system in its own mount namespace and
// starts the container. All processes that it starts end with it.
const cellScript = `mount --bind "$1" "$2"
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$2/sys"
mkdir -p "$4"
exec "$3" --root "$4" run --bundle "$5" "$6"`

// Run runs a shell script in the cell and passes each line of its output to
// out. When Run returns, every process of the cell has ended.
func (c Cell) Run(ctx context.Context, script string, args []string, out func(line string)) (err error) {
	bundle, err := os.MkdirTemp(filepath.Dir(c.Job.Work), "cell-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bundle)) }()
	root, err := c.skeleton(bundle)
	if err != nil {
		return err
	}
	at, err := c.mountPoint()
	if err != nil {
		return err
	}
	name := cellName(filepath.Base(filepath.Dir(c.Job.Work)))
	spec := c.spec(at, name, append([]string{"/bin/sh", "-ec", script, "sh"}, args...))
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o600); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeCgroups(name)) }()
	if err := limitSockets(name); err != nil {
		return err
	}
	argv := []string{"unshare", "--mount", "--fork", "--pid", "--kill-child", "--mount-proc", "--", "sh", "-ec", cellScript, "sh",
		root, at, c.Runtime, filepath.Join(bundle, "state"), bundle, name}
	switch {
	case c.Link != nil:
		argv = append([]string{"nsenter", "--net=" + c.Link.Namespace(), "--"}, argv...)
	case c.Job.Network != Host:
		argv = append([]string{"unshare", "--net", "--"}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // Run kills it with everything that it started
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return Run(ctx, cmd, syscall.SIGKILL, out)
}

// skeleton creates the tree for the cell's root file system. The tree is
// mounted read-only, so it must contain every mount point.
func (c Cell) skeleton(bundle string) (root string, err error) {
	root = filepath.Join(bundle, "root")
	dirs := []string{"", InBin, "dev", "etc", "etc/containers", "etc/ssl", "proc", "run", "sys", "tmp", "usr", "var", "var/tmp"}
	for _, m := range c.mounts() {
		dirs = append(dirs, strings.TrimPrefix(m.Destination, "/"))
	}
	for _, d := range dirs {
		if info, err := os.Stat(filepath.Join(root, d)); err == nil && info.IsDir() {
			continue
		}
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return "", err
		}
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if _, err := os.Stat("/usr/" + d); err == nil {
			if err := os.Symlink("usr/"+d, filepath.Join(root, d)); err != nil {
				return "", err
			}
		}
	}
	nameserver := "127.0.0.1"
	if c.Link != nil {
		nameserver = c.Link.Nameserver()
	}
	resolv := "nameserver " + nameserver + "\noptions edns0\n"
	if c.Job.Network == Host {
		data, err := os.ReadFile("/etc/resolv.conf")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		resolv = string(data)
	}
	files := map[string]string{
		"etc/passwd": "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n", "etc/group": "root:x:0:\nnogroup:x:65534:\n",
		"etc/hosts": "127.0.0.1 localhost\n::1 localhost\n", "etc/resolv.conf": resolv,
		// The server has verified the base images, so the engine need not check
		// signatures.
		"etc/containers/policy.json":     `{"default":[{"type":"insecureAcceptAnything"}]}`,
		"etc/containers/registries.conf": "unqualified-search-registries = [\"docker.io\"]\nshort-name-mode = \"disabled\"\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil { // world-readable
			return "", err
		}
	}
	// Copy the programs instead of mounting them: the runtime makes an overlay
	// of the folder that contains its program.
	for _, program := range c.Programs {
		at := filepath.Join(root, InBin, filepath.Base(program))
		if os.Link(program, at) == nil {
			continue
		}
		if err := errors.Join(copyFile(program, at), os.Chmod(at, 0o755)); err != nil {
			return "", err
		}
	}
	return root, nil
}

// mountPoint returns a host folder at which to mount the cell's root file
// system. Mounting there must hide nothing that the cell needs, and the cell's
// users must be able to traverse the folder.
func (c Cell) mountPoint() (string, error) {
	for _, at := range []string{"/mnt", "/media", "/srv", "/opt", "/home"} {
		if info, err := os.Lstat(at); err != nil || !info.IsDir() {
			continue
		}
		needs := []string{c.Runtime, c.Job.Work}
		for _, m := range c.mounts() {
			needs = append(needs, m.Source)
		}
		if !slices.ContainsFunc(needs, func(path string) bool { return strings.HasPrefix(path+"/", at+"/") }) {
			return at, nil
		}
	}
	return "", errors.New("builds need a mount point, and none of /mnt, /media, /srv, /opt and /home can be used")
}

// mounts returns the mounts of the build's own folders.
func (c Cell) mounts() []specs.Mount {
	bind := func(source, target string, options ...string) specs.Mount {
		return specs.Mount{Destination: target, Type: "bind", Source: source, Options: append([]string{"rbind", "rprivate"}, options...)}
	}
	// Because of nosuid, a program that a step creates in these folders has only
	// the rights of the step.
	m := []specs.Mount{
		bind("/usr", "/usr", "ro", "nodev"),
		bind(c.Job.Work, InWork, "nosuid", "nodev"),
		bind(c.Job.Context, InContext, "nosuid", "nodev"),
		bind(c.Kept, InKept),
	}
	if _, err := os.Stat("/etc/ssl/certs"); err == nil {
		m = append(m, bind("/etc/ssl/certs", "/etc/ssl/certs", "ro", "nosuid", "nodev"))
	}
	for i, b := range c.Job.Bases {
		if b.Dir != "" {
			m = append(m, bind(b.Dir, fmt.Sprintf("%s/%d", InBases, i), "ro", "nosuid", "nodev"))
		}
	}
	return m
}

// cellCapabilities are the capabilities of root in the cell. They apply only
// within the cell's user namespace.
var cellCapabilities = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE",
	"CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE",
}

// deniedCalls are system calls that builds do not need and that have been used
// to escape from namespaces.
var deniedCalls = []string{
	"add_key", "bpf", "delete_module", "finit_module", "init_module", "io_uring_enter", "io_uring_register", "io_uring_setup", "kexec_file_load", "kexec_load",
	"lookup_dcookie", "open_by_handle_at", "perf_event_open", "process_madvise", "process_vm_writev", "quotactl", "quotactl_fd", "reboot", "request_key",
	"swapoff", "swapon", "syslog", "userfaultfd", "vhangup",
}

func (c Cell) spec(root, name string, args []string) specs.Spec {
	tmpfs := func(at, mode, size string) specs.Mount {
		return specs.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=" + mode, "size=" + size}}
	}
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=64k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"}},
		tmpfs("/dev/shm", "1777", "64m"), tmpfs("/run", "755", "64m"), tmpfs("/tmp", "1777", "256m"), tmpfs("/var/tmp", "1777", "256m"),
	}
	mounts = append(mounts, c.mounts()...)
	ids := []specs.LinuxIDMapping{{HostID: c.Job.FirstID, Size: cellIDs}}
	limits := c.Job.Limits
	resources := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}}
	if limits.MemoryBytes > 0 {
		resources.Memory = &specs.LinuxMemory{Limit: &limits.MemoryBytes}
	}
	if limits.PIDs > 0 {
		resources.Pids = &specs.LinuxPids{Limit: &limits.PIDs}
	}
	if limits.CPUs > 0 {
		period := uint64(100_000)
		quota := max(int64(limits.CPUs*float64(period)), 1000) // the kernel's minimum
		resources.CPU = &specs.LinuxCPU{Period: &period, Quota: &quota}
	}
	env := append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + InBin, "HOME=" + InKept}, c.Env...)
	none := uint(unix.ENOSYS)
	return specs.Spec{
		Version: "1.0.2", Hostname: "build", Root: &specs.Root{Path: root, Readonly: true}, Mounts: mounts,
		Process: &specs.Process{
			Args: args, Env: env, Cwd: "/",
			Capabilities: &specs.LinuxCapabilities{Bounding: cellCapabilities, Effective: cellCapabilities, Permitted: cellCapabilities},
		},
		Linux: &specs.Linux{
			CgroupsPath: "/" + name, Resources: resources, UIDMappings: ids, GIDMappings: ids,
			Namespaces: []specs.LinuxNamespace{{Type: specs.MountNamespace}, {Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.CgroupNamespace}, {Type: specs.UserNamespace}},
			Seccomp: &specs.LinuxSeccomp{
				DefaultAction: specs.ActAllow,
				Syscalls:      append(noUserNamespaces(), specs.LinuxSyscall{Names: deniedCalls, Action: specs.ActErrno, ErrnoRet: &none}, noVsock()),
			},
		},
	}
}

// limitSockets creates the build's cgroup v1 of memory with a limit for the
// memory of sockets, which counts towards no other limit. The runtime, which has
// no setting for it, uses the existing cgroup.
func limitSockets(name string) error {
	const root, file = "/sys/fs/cgroup/memory", "memory.kmem.tcp.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(root, file)); err != nil {
		return nil //nolint:nilerr // cgroup v2, which counts it towards the memory limit, or a kernel without this limit
	}
	limit, err := cgroup.SocketMemory()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(limit, 10)), 0) // the file exists
}

// noUserNamespaces denies new user namespaces. In one, a step would have all
// capabilities: it could reach the packet filter, and create network namespaces,
// whose memory the kernel mostly counts towards no limit. The engines run
// in the cell's namespace and need no other.
func noUserNamespaces() []specs.LinuxSyscall {
	not, absent := uint(unix.EPERM), uint(unix.ENOSYS)
	flag := []specs.LinuxSeccompArg{{Index: 0, Value: unix.CLONE_NEWUSER, ValueTwo: unix.CLONE_NEWUSER, Op: specs.OpMaskedEqual}}
	return []specs.LinuxSyscall{
		{Names: []string{"clone", "unshare"}, Action: specs.ActErrno, ErrnoRet: &not, Args: flag},
		// The flags of clone3 are in memory, where a filter cannot see them. Programs
		// use clone instead.
		{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: &absent},
	}
}

// noVsock denies AF_VSOCK sockets: they reach the hypervisor, and no namespace
// isolates them.
func noVsock() specs.LinuxSyscall {
	not := uint(unix.EAFNOSUPPORT)
	return specs.LinuxSyscall{Names: []string{"socket"}, Action: specs.ActErrno, ErrnoRet: &not, Args: []specs.LinuxSeccompArg{{Index: 0, Value: unix.AF_VSOCK, Op: specs.OpEqualTo}}}
}

// cellName derives the name of a build's cgroup from the name of its folder.
func cellName(work string) string { return "aloft-" + work }

// removeCgroups removes the cgroups that a killed cell leaves behind.
func removeCgroups(name string) error {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(info)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup") || len(fields) < 5 {
			continue
		}
		errs = append(errs, removeCgroup(filepath.Join(fields[4], name)))
	}
	return errors.Join(errs...)
}

// removeCgroup removes a cgroup and its children. It retries, since killed
// processes take a moment to leave.
func removeCgroup(dir string) error {
	var err error
	for range 100 {
		var dirs []string
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		slices.Reverse(dirs)
		err = nil
		for _, d := range dirs {
			if e := unix.Rmdir(d); e != nil && !errors.Is(e, unix.ENOENT) {
				err = cmp.Or(err, error(&os.PathError{Op: "rmdir", Path: d, Err: e}))
			}
		}
		if err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}
