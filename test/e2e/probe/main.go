// Command probe runs inside a machine and attempts, one by one, everything that is
// forbidden there. For each attempt it prints a line with the name and the result:
// the name of the error, or "done". The test that runs the probe judges the results.
//
// With the argument "calls" the probe attempts only system calls. Otherwise its
// arguments are a word that occurs only in command lines of the host's processes, a
// port on the host's loopback, the name of an abstract socket of the host, and the
// host's folder with the layers of all machines.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) == 2 {
		part(os.Args[1])
		return
	}
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: probe WORD PORT SOCKET LAYERS, or probe calls")
		os.Exit(2)
	}
	status()
	namespaces()
	files()
	devices()
	sockets(os.Args[2], os.Args[3])
	layers(os.Args[4])
	say("a process of the host", findProcess(os.Args[1]))
	apart("climb")
	calls()
	mounts() // last, because this process may get another root
}

// apart runs a part of the probe in a process of its own, because it may get
// another root.
func apart(name string) {
	self, err := os.Executable()
	if err != nil {
		tell(name, err)
		return
	}
	cmd := exec.Command(self, name)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		tell(name, err)
	}
}

// part runs a part of the probe that needs no arguments about the host. The
// probe starts some parts itself, in new namespaces.
func part(name string) {
	switch name {
	case "calls":
		otherABIs()
		families()
		nested()
	case "mounts":
		nestedMounts()
	case "cgroups":
		liftLimits()
	case "climb":
		tell("climb above the root", climb())
	}
}

func say(name, result string) { fmt.Printf("%s\t%s\n", name, result) }

// tell prints the result of an attempt.
func tell(name string, err error) {
	var errno syscall.Errno
	switch {
	case err == nil:
		say(name, "done")
	case errors.As(err, &errno):
		say(name, unix.ErrnoName(errno))
	default:
		say(name, err.Error())
	}
}

// status prints the process's privileges.
func status() {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tell("status", err)
		return
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "CapBnd", "CapEff", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp":
			say("status "+key, strings.TrimSpace(value))
		}
	}
}

func namespaces() {
	for _, kind := range []string{"mnt", "pid", "ipc", "uts", "net", "cgroup"} {
		link, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			tell("namespace "+kind, err)
			continue
		}
		say("namespace "+kind, link)
	}
}

// files tries to write to the files that configure the kernel, and to read the
// kernel's information about the host.
func files() {
	for _, path := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/hostname",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity",
		"/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state", "/sys/class/net/lo/mtu", "/sys/module/overlay/uevent",
	} {
		tell("write "+path, open(path, os.O_WRONLY))
	}
	agents, _ := filepath.Glob("/sys/fs/cgroup/*/release_agent")
	for _, path := range append(agents, "/sys/fs/cgroup/release_agent") {
		tell("release_agent", open(path, os.O_WRONLY))
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*")
	for _, dir := range append(groups, "/sys/fs/cgroup") {
		var fs unix.Statfs_t // version 1 is mounted below a tmpfs, which is not a cgroup
		if unix.Statfs(dir, &fs) == nil && (fs.Type == unix.CGROUP_SUPER_MAGIC || fs.Type == unix.CGROUP2_SUPER_MAGIC) {
			tell("make a cgroup", os.Mkdir(filepath.Join(dir, "probe"), 0o755))
		}
	}
	for _, path := range []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/interrupts"} {
		data := make([]byte, 16)
		n := 0
		f, err := os.Open(path)
		if err == nil {
			n, _ = f.Read(data)
			_ = f.Close()
		}
		say("read "+path, fmt.Sprintf("%d bytes", n))
	}
	for _, path := range []string{"/sys/firmware", "/proc/scsi", "/proc/acpi", "/proc/asound"} {
		entries, _ := os.ReadDir(path)
		say("list "+path, fmt.Sprintf("%d entries", len(entries)))
	}
	for _, path := range []string{"/sys/kernel/debug", "/sys/kernel/security", "/sys/kernel/tracing", "/sys/fs/bpf"} {
		entries, _ := os.ReadDir(path)
		say("list "+path, fmt.Sprintf("%d entries", len(entries)))
	}
	for _, path := range []string{"/var/run/docker.sock", "/run/containerd/containerd.sock", "/host", "/run/aloft/../aloft/../../machines"} {
		_, err := os.Stat(path)
		tell("stat "+path, err)
	}
	entries, _ := os.ReadDir("/run/aloft")
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	say("list /run/aloft", strings.Join(names, " "))
	var own, first unix.Stat_t
	if err := errors.Join(unix.Stat("/", &own), unix.Stat("/proc/1/root/", &first)); err != nil {
		tell("root of process 1", err)
	} else {
		say("root of process 1", fmt.Sprint("ours: ", own.Ino == first.Ino && own.Dev == first.Dev))
	}
	tell("lower oom_score_adj", os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0o600))
	name := filepath.Join(os.TempDir(), "probe-file")
	defer os.Remove(name)
	_ = os.WriteFile(name, nil, 0o600)
	for _, attr := range []string{"trusted.overlay.redirect", "trusted.overlay.opaque", "trusted.overlay.metacopy"} {
		tell("set "+attr, unix.Setxattr(name, attr, []byte("/../../etc"), 0))
	}
}

// layers looks for other machines' data in the host's folder.
func layers(dir string) {
	tell("open the layers of machines", open(filepath.Join(dir, "machines"), os.O_RDONLY))
	tell("open the layers of machines through process 1", open(filepath.Join("/proc/1/root", dir, "machines"), os.O_RDONLY))
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		tell("a layer in the mounts", err)
		return
	}
	found := "none"
	for line := range strings.Lines(string(mounts)) {
		// The fourth field is the mounted part of its file system.
		if f := strings.Fields(line); len(f) > 4 && (strings.HasSuffix(f[3], "/upper") || strings.HasSuffix(f[3], "/machines")) {
			found = f[3]
		}
	}
	say("a layer in the mounts", found)
}

// climb tries to escape from our root with a chroot to a subfolder and many
// "..". gVisor mounts our root on an empty folder.
func climb() error {
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		return err
	}
	out, err := os.Open("/")
	if err != nil {
		return err
	}
	defer out.Close()
	var before, below, after unix.Stat_t
	if err := errors.Join(unix.Stat("/", &before), unix.Stat(dir, &below)); err != nil {
		return err
	}
	if err := unix.Chroot(dir); err != nil {
		return err
	}
	for range 64 {
		_ = unix.Fchdir(int(out.Fd()))
		_ = unix.Chdir(strings.Repeat("../", 32))
	}
	if err := unix.Stat(".", &after); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if after.Dev == before.Dev && after.Ino == before.Ino || after.Dev == below.Dev && after.Ino == below.Ino {
		return errors.New("no further")
	}
	entries, err := os.ReadDir(".")
	if err == nil && len(entries) == 0 {
		return errors.New("to an empty place")
	}
	return err
}

func open(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// docker lists the devices that Docker provides, and the folders and links in
// /dev.
var docker = []string{
	"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts", "shm", "mqueue",
	"fd", "stdin", "stdout", "stderr", "core",
}

func devices() {
	entries, _ := os.ReadDir("/dev")
	var more []string
	for _, e := range entries {
		if !slices.Contains(docker, e.Name()) {
			more = append(more, e.Name())
		}
	}
	say("devices beyond Docker's", strings.Join(more, " "))
	for _, d := range []struct {
		name         string
		kind         uint32
		major, minor uint32
	}{
		{"mem", unix.S_IFCHR, 1, 1}, {"kmsg", unix.S_IFCHR, 1, 11}, {"tun", unix.S_IFCHR, 10, 200}, {"fuse", unix.S_IFCHR, 10, 229},
		{"kvm", unix.S_IFCHR, 10, 232}, {"loop-control", unix.S_IFCHR, 10, 237}, {"loop0", unix.S_IFBLK, 7, 0}, {"sda", unix.S_IFBLK, 8, 0},
		{"vda", unix.S_IFBLK, 254, 0}, {"vda (253)", unix.S_IFBLK, 253, 0}, {"dm", unix.S_IFBLK, 252, 0},
	} {
		path := filepath.Join(os.TempDir(), "probe-device")
		err := unix.Mknod(path, d.kind|0o600, int(unix.Mkdev(d.major, d.minor)))
		if err == nil {
			err = open(path, os.O_RDONLY)
		}
		tell("device "+d.name, err)
		_ = os.Remove(path)
	}
}

// findProcess looks for a process whose command line contains the word.
func findProcess(word string) string {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		if pid := filepath.Base(filepath.Dir(name)); pid == fmt.Sprint(os.Getpid()) || pid == fmt.Sprint(os.Getppid()) {
			continue // the probe and its parent have the word as an argument
		}
		if line, err := os.ReadFile(name); err == nil && bytes.Contains(line, []byte(word)) && !bytes.Contains(line, []byte("probe")) {
			return "seen"
		}
	}
	return "not seen"
}

func sockets(port, abstract string) {
	for _, f := range []struct {
		name   string
		family int
		kind   int
	}{
		{"AF_VSOCK", unix.AF_VSOCK, unix.SOCK_STREAM}, {"AF_BLUETOOTH", unix.AF_BLUETOOTH, unix.SOCK_RAW},
		{"AF_RDS", unix.AF_RDS, unix.SOCK_SEQPACKET}, {"AF_CAN", unix.AF_CAN, unix.SOCK_RAW}, {"AF_TIPC", unix.AF_TIPC, unix.SOCK_SEQPACKET},
	} {
		fd, err := unix.Socket(f.family, f.kind, 0)
		if err == nil {
			_ = unix.Close(fd)
		}
		tell("socket "+f.name, err)
	}
	for name, address := range map[string]string{
		"the host's loopback": "127.0.0.1:" + port, "the metadata address": "169.254.169.254:80", "the metadata address (IPv6)": "[fd00:ec2::254]:80",
	} {
		conn, err := net.DialTimeout("tcp", address, 3*time.Second)
		if err == nil {
			_ = conn.Close()
		}
		if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
			err = errors.New("no answer")
		}
		tell("reach "+name, err)
	}
	conn, err := net.Dial("unix", "@"+abstract)
	if err == nil {
		_ = conn.Close()
	}
	tell("reach an abstract socket of the host", err)
}
