package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// build builds a program below this folder to run in machines.
func build(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "aloft/test/e2e/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the %s: %v\n%s", name, err, out)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(program)
}

// runsc returns the path of gVisor's runsc, which "make test" builds.
func runsc(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../.bin/runsc")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "runsc", path)
	return path
}

// probe has two agents run the probe at the same time, one as root and one as
// the user that runs commands, and returns their results.
func probe(t *testing.T, machineConfig string) (root, user map[string][]string) {
	t.Helper()
	git := gittest.New(t)
	url := git.Repo("probe", map[string]string{"probe": build(t, "probe")})
	loopback, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer loopback.Close()
	name := fmt.Sprintf("aloft-probe-%d", os.Getpid())
	abstract, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	_, port, _ := net.SplitHostPort(loopback.Addr().String())
	script := `
scripts:
  - match: "as (sudo|env)"
    turns:
      - calls:
          - tool: Shell
            args:
              timeout: 200000
              command: "cp probe /tmp/probe && chmod 755 /tmp/probe && git rm -q --cached probe && rm probe; {{match 1}} /tmp/probe WORD PORT NAME LAYERS > found.txt; wc -l < found.txt"
      - text: Done.
`
	// WORD is the server's --config argument, which is in the server's command
	// line and in no machine.
	layers := t.TempDir()
	a := start(t, scripted(t, strings.NewReplacer("PORT", port, "NAME", name, "WORD", "serve.--config", "LAYERS", layers).Replace(script))+machineConfig)
	// A link to the host's folder with the layers of all machines. Its path is
	// known before the server starts.
	if err := os.Symlink(filepath.Join(a.Data, "machines"), filepath.Join(layers, "machines")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(layers, "machines", "machines")); err != nil {
		t.Fatal(err)
	}
	asRoot, asUser := a.create(url, "Look as sudo", nil), a.create(url, "Look as env", nil)
	read := func(r run) map[string][]string {
		text := gittest.Git(t, git.Path("probe"), "show", pushed(t, a.finish(r))+":found.txt")
		found := map[string][]string{}
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			found[key] = append(found[key], value)
		}
		return found
	}
	return read(asRoot), read(asUser)
}

// A row is the expected result of one attempt of the probe: a regular
// expression that must match all of its results completely. Root's result must
// match want; the user's must match want or a plain refusal.
type row struct{ name, want, gvisor string }

// refused matches a plain refusal.
const refused = "EPERM|EACCES|EROFS|ENOENT|ENOSYS"

// own is for attempts that under gVisor affect only the machine's own kernel.
const own = ".*"

// dockerCaps is Docker's bounding set, without CAP_MKNOD.
const dockerCaps = "00000000a00425fb"

// forbidden lists the attempts. Under gVisor a machine has its own kernel and
// no seccomp filter from the host. That kernel supports fewer system calls, and
// lets the machine's root do anything that affects only this kernel.
var forbidden = []row{
	{"status CapBnd", dockerCaps, "00000000a00405fb|" + dockerCaps}, // gVisor removes CAP_NET_RAW
	{"status CapEff", dockerCaps + "|0000000000000000", "00000000a00405fb|0000000000000000|" + dockerCaps},
	{"status CapInh", "0000000000000000", "0000000000000000"},
	{"status CapAmb", "0000000000000000", "0000000000000000"},
	{"status NoNewPrivs", "0", "0"}, // sudo must work; the bounding set provides the protection
	{"status Seccomp", "2", "0"},

	{"write /proc/sys/kernel/core_pattern", refused, refused},
	{"write /proc/sys/kernel/modprobe", refused, refused},
	{"write /proc/sys/vm/drop_caches", refused, refused},
	{"write /proc/sys/kernel/hostname", refused, own},
	{"write /proc/sys/net/ipv4/ip_forward", refused, own},
	{"write /proc/sys/fs/binfmt_misc/register", refused, refused},
	{"write /proc/sysrq-trigger", refused, own},
	{"write /proc/irq/default_smp_affinity", refused, refused},
	{"write /sys/kernel/uevent_helper", refused, refused},
	{"write /sys/kernel/mm/transparent_hugepage/enabled", refused, refused},
	{"write /sys/power/state", refused, refused},
	{"write /sys/class/net/lo/mtu", refused, refused},
	{"write /sys/module/overlay/uevent", refused, refused},
	{"release_agent", refused, refused},
	{"make a cgroup", refused, own},
	{"lower oom_score_adj", refused, own},
	{"root of process 1", refused + "|ours: true", refused + "|ours: true"},
	{"set trusted.overlay.redirect", refused, refused},
	{"set trusted.overlay.opaque", refused, refused},
	{"set trusted.overlay.metacopy", refused, refused},
	{"read /proc/kcore", "0 bytes", "0 bytes"},
	{"read /proc/keys", "0 bytes", "0 bytes"},
	{"read /proc/timer_list", "0 bytes", "0 bytes"},
	{"read /proc/sched_debug", "0 bytes", "0 bytes"},
	{"read /proc/interrupts", "0 bytes", "0 bytes"},
	{"list /sys/firmware", "0 entries", "0 entries"},
	{"list /proc/scsi", "0 entries", "0 entries"},
	{"list /proc/acpi", "0 entries", "0 entries"},
	{"list /proc/asound", "0 entries", "0 entries"},
	{"list /sys/kernel/debug", "0 entries", "0 entries"},
	{"list /sys/kernel/security", "0 entries", "0 entries"},
	{"list /sys/kernel/tracing", "0 entries", "0 entries"},
	{"list /sys/fs/bpf", "0 entries", "0 entries"},
	{"list /run/aloft", "pod.sock|", "pod.sock|"},
	{"stat /var/run/docker.sock", refused, refused},
	{"stat /run/containerd/containerd.sock", refused, refused},
	{"stat /host", refused, refused},
	{"stat /run/aloft/../aloft/../../machines", refused, refused},
	{"a process of the host", "not seen", "not seen"},
	{"climb above the root", "no further|" + refused, "no further|to an empty place|" + refused},

	{"devices beyond Docker's", "", "(char|fuse|net| )*"},
	{"device mem", refused, "ENXIO|" + refused},
	{"device kmsg", refused, "ENXIO|" + refused},
	{"device tun", refused, own},
	{"device fuse", refused, own},
	{"device kvm", refused, "ENXIO|" + refused},
	{"device loop-control", refused, "ENXIO|" + refused},
	{"device loop0", refused, "ENXIO|" + refused},
	{"device sda", refused, "ENXIO|" + refused},
	{"device vda", refused, "ENXIO|" + refused},
	{"device vda (253)", refused, "ENXIO|" + refused},
	{"device dm", refused, "ENXIO|" + refused},

	{"open the layers of machines", "ENOENT", "ENOENT"},
	{"open the layers of machines through process 1", "ENOENT|EACCES", "ENOENT|EACCES"},
	{"a layer in the mounts", "none", "none"},
	{"mount tmpfs", "EPERM", "EPERM"},
	{"mount proc", "EPERM", "EPERM"},
	{"mount cgroup", "EPERM", "EPERM"},
	{"mount overlay", "EPERM", "EPERM"},
	{"bind mount", "EPERM", "EPERM"},
	{"remount /proc/sys", "EPERM", "EPERM"},
	{"remount /usr", "EPERM", "EPERM"},
	{"unmount /proc/sys", "EPERM", "EPERM"},
	{"unmount /proc/kcore", "EPERM|ENOENT", "EPERM|ENOENT"},
	{"pivot_root", "EPERM", "EPERM"},
	{"fsopen", refused, refused},
	{"open_tree", refused, refused},
	{"mount_setattr", refused, refused},
	{"new user namespace", "EINVAL", "EINVAL"}, // a process may create one only while it has a single thread; browsers do
	{"new mount namespace", "EPERM", "EPERM|EINVAL"},
	{"new net namespace", "EPERM", "EPERM|EINVAL"},
	{"new pid namespace", "EPERM", "EPERM|EINVAL"},
	{"new cgroup namespace", "EPERM", "EPERM|EINVAL"},
	{"setns", refused, refused},
	{"init_module", "EPERM", refused},
	{"finit_module", "EPERM", refused},
	{"delete_module", "EPERM", refused},
	{"kexec_load", "EPERM", refused},
	{"kexec_file_load", "EPERM", refused},
	{"reboot", "EPERM", refused},
	{"swapon", "EPERM", refused},
	{"swapoff", "EPERM", refused},
	{"acct", refused, refused},
	{"quotactl", refused, refused},
	{"kernel log", "EPERM", own},
	{"bpf", "EPERM", refused},
	{"perf_event_open", "EPERM", "ENODEV|" + refused},
	{"userfaultfd", "EPERM", refused},
	{"io_uring_setup", refused, refused},
	{"keyctl", "EPERM", own},
	{"add_key", "EPERM", refused},
	{"request_key", "EPERM", refused},
	{"ptrace of process 1", refused, refused},
	{"open by handle", "EPERM", "ENOTSUP|" + refused},
	{"iopl", refused, refused},
	{"ioperm", refused, refused},
	{"move to another memory node", refused, refused},
	{"clock_settime", "EPERM", "EPERM"},
	{"settimeofday", "EPERM", "EPERM"},
	{"adjtimex", "EPERM", "EPERM"},
	{"sethostname", "EPERM", "EPERM"},
	{"raise a limit", "EPERM", "EPERM"},
	{"nice -20", refused, own},
	{"real-time priority", refused, "EINVAL|" + refused},

	{"socket AF_VSOCK", "EPERM|EAFNOSUPPORT", "EPERM|EAFNOSUPPORT"},
	{"socket AF_BLUETOOTH", "EPERM|EAFNOSUPPORT", "EPERM|EAFNOSUPPORT"},
	{"socket AF_RDS", "EPERM|EAFNOSUPPORT", "EPERM|EAFNOSUPPORT"},
	{"socket AF_CAN", "EPERM|EAFNOSUPPORT|EPROTONOSUPPORT", "EPERM|EAFNOSUPPORT"},
	{"socket AF_TIPC", "EPERM|EAFNOSUPPORT", "EPERM|EAFNOSUPPORT"},
	{"reach the host's loopback", "ECONNREFUSED", "ECONNREFUSED"},
	{"reach the metadata address", unreachable, unreachable},
	{"reach the metadata address (IPv6)", unreachable, unreachable},
	{"reach an abstract socket of the host", "ECONNREFUSED", "ECONNREFUSED"},
}

const unreachable = "ENETUNREACH|EHOSTUNREACH|ECONNREFUSED|EACCES|ECONNRESET|no answer"

// TestInside compares the results of all attempts with the table, for root and
// for the user, under runc and under gVisor.
func TestInside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, config string
		want         func(row) string
	}{
		{"runc", "", func(r row) string { return r.want }},
		{"runsc", "machine:\n  class: strong\n  strong: " + runsc(t) + "\n", func(r row) string { return r.gvisor }},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, user := probe(t, c.config)
			var names []string
			for _, r := range forbidden {
				names = append(names, r.name)
				want := c.want(r)
				holds(t, "root", r.name, root[r.name], want)
				holds(t, "user", r.name, user[r.name], want+"|"+refused)
			}
			for name, results := range root {
				kind, isNamespace := strings.CutPrefix(name, "namespace ")
				if !isNamespace {
					if !slices.Contains(names, name) {
						t.Errorf("the table has no row for %q, which gave %q", name, results)
					}
					continue
				}
				host, err := os.Readlink("/proc/self/ns/" + kind)
				if err != nil {
					t.Fatal(err)
				}
				if results[0] == host || c.name == "runc" && results[0] == user[name][0] {
					t.Errorf("%s is %s; the host's is %s, another machine's %s", name, results[0], host, user[name][0])
				}
			}
		})
	}
}

func holds(t *testing.T, who, name string, results []string, want string) {
	t.Helper()
	if len(results) == 0 {
		t.Errorf("%s: %s was not tried", who, name)
	}
	match := regexp.MustCompile("^(" + want + ")$")
	for _, got := range results {
		if !match.MatchString(got) {
			t.Errorf("%s: %s gives %q, want %s", who, name, got, want)
		}
	}
}
