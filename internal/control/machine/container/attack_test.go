package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/process"
	"aloft/internal/policy/calls"
)

// attacked creates a machine that also contains the attack probe of test/e2e.
func attacked(t *testing.T, limits machine.Limits) machine.Machine {
	t.Helper()
	return create(t, start(t, armed(t)), machine.Spec{Image: "host", Limits: limits})
}

// armed returns the configuration of a runtime whose machines contain the attack
// probe as /exec-daemon/sandbox.
func armed(t testing.TB) Config {
	t.Helper()
	conf := config(t, t.TempDir(), engines(t)["runc"])
	bin := t.TempDir()
	pod, err := os.ReadFile(filepath.Join(conf.Binaries, "pod-daemon"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "pod-daemon"), pod, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "sandbox"), "aloft/test/e2e/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	conf.Binaries = bin
	return conf
}

// attempts runs one part of the attack probe and returns the result of each
// attempt by name.
func attempts(t *testing.T, m machine.Machine, wrap, part string) map[string][]string {
	t.Helper()
	got := ask(t, m, "sh", "-c", wrap+"/exec-daemon/sandbox "+part)
	if got.Code != 0 {
		t.Fatalf("probe: exit %d: %s", got.Code, got.Output)
	}
	found := map[string][]string{}
	for line := range strings.Lines(got.Output) {
		name, result, _ := strings.Cut(strings.TrimSpace(line), "\t")
		found[name] = append(found[name], result)
	}
	return found
}

// mountableTypes are the file system types that a user namespace in a machine
// may mount. Seccomp cannot tell types apart. For all other types the kernel
// demands privileges in the host's user namespace.
var mountableTypes = []string{"tmpfs", "ramfs", "overlay", "mqueue", "devpts", "binfmt_misc"}

// reachableTypes could also be mounted in a user namespace, but here the mount
// fails for a reason other than privileges: there is no /dev/fuse.
var reachableTypes = []string{"fuse"}

// TestCalls makes every kind of system call that the table of package calls
// lists: each ABI, socket family, type and protocol, namespace and file system.
func TestCalls(t *testing.T) {
	m := attacked(t, machine.Limits{MemoryBytes: 512 << 20, CPUs: 1, PIDs: 200})
	for who, wrap := range map[string]string{"root": "", "user": asUser} {
		found := attempts(t, m, wrap, "calls")
		if who == "root" { // for other users the kernel itself returns EPERM
			checkSockets(t, found["socket"], calls.Machine)
			if !slices.Equal(found["socketpair"], []string{strconv.Itoa(unix.AF_UNIX)}) {
				t.Errorf("pairs of sockets of the families %s can be made", found["socketpair"])
			}
		}
		for name, results := range found {
			for _, result := range results {
				ok := true
				switch {
				case strings.HasPrefix(name, "abi "):
					ok = result == "bad system call" || result == "ENOSYS"
				case strings.HasPrefix(name, "wide "):
					ok = result == "EPERM"
				case name == "nested cgroup namespace", name == "limits with a cgroup namespace":
					ok = strings.HasSuffix(result, "operation not permitted") || result == "EPERM"
				case strings.HasPrefix(name, "limits "):
					ok = strings.HasPrefix(result, "mount cgroup") && strings.Contains(result, "not permitted")
				case strings.HasPrefix(name, "mount type "):
					kind := strings.TrimPrefix(name, "mount type ")
					ok = result == "EPERM" || result == "ENODEV" || slices.Contains(mountableTypes, kind) || result != "done" && slices.Contains(reachableTypes, kind)
				case strings.HasPrefix(name, "nested "):
					ok = result == "done" // the command sandbox and browsers need this namespace
				}
				if !ok {
					t.Errorf("%s: %s: %s", who, name, result)
				}
			}
		}
		tried := []string{"wide socket netfilter", "limits with no cgroup namespace", "mount type cgroup", "mount type tmpfs", "mount type ext4", "mount type proc"}
		if hostFacts().arch == "amd64" {
			tried = append(tried, "abi i386 socketcall", "abi x32 socket vsock")
		}
		for _, c := range []struct {
			flags   string
			allowed bool
		}{
			{"-U", true}, {"-U -m -p -f -n -i -u", true}, {"-U -r unshare -n -p -f", true}, // a browser's sandbox creates it
			{"-n", false}, {"-m", false}, {"-p -f", false}, // outside of a user namespace of its own
			{"-C", false}, {"-T", false}, {"-U -C", false}, {"-U -T", false}, {"-U -r unshare -C", false}, {"-U -r unshare -T", false},
		} {
			got := ask(t, m, "sh", "-c", wrap+" unshare "+c.flags+" true 2>&1")
			if allowed := got.Code == 0; allowed != c.allowed || !allowed && !strings.Contains(got.Output, "not permitted") {
				t.Errorf("%s: unshare %s: exit code %d, %s", who, c.flags, got.Code, got.Output)
			}
		}
		for _, name := range tried {
			if len(found[name]) == 0 {
				t.Errorf("%s: %s was not tried", who, name)
			}
		}
	}
}

// checkSockets compares the sockets that could be created, each written as
// "FAMILY TYPE PROTOCOL", with the allow table for a kind of process.
func checkSockets(t *testing.T, passed []string, kind calls.Process) {
	t.Helper()
	seen := map[*calls.Socket]bool{}
	table := calls.SocketsOf(kind)
	for _, kind := range passed {
		var family, typ, protocol int
		if _, err := fmt.Sscan(kind, &family, &typ, &protocol); err != nil {
			t.Fatal(err)
		}
		known := false
		for i, s := range table {
			if s.Family == family && (s.Types == nil || slices.Contains(s.Types, typ)) && (s.Protocols == nil || slices.Contains(s.Protocols, protocol)) {
				seen[&table[i]], known = true, true
			}
		}
		if !known {
			t.Errorf("a socket of family %d, type %d, protocol %d can be made", family, typ, protocol)
		}
	}
	for i := range table {
		if !seen[&table[i]] {
			t.Errorf("no socket of %+v can be made", table[i])
		}
	}
}

// TestLiftedLimits lifts every limit of the machine's own cgroup, as root in
// the machine could if it had access to the cgroup's files. The limits of the
// parent cgroup must still apply.
func TestLiftedLimits(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	limits := machine.Limits{MemoryBytes: 64 << 20, CPUs: 0.5, PIDs: 30}
	m := create(t, r, machine.Spec{Image: "host", Limits: limits}).(*Machine)
	all, err := cgroup.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		for _, c := range h.Limited() {
			for _, f := range slices.Backward(h.Files(c, cgroup.Limits(limits))) {
				none := "-1"
				if h.V2 || c == "pids" {
					none = "max"
				}
				if f.Name == "cpu.cfs_period_us" {
					continue
				}
				_ = h.Write(m.inside(), f.Name, none) // the kernel may refuse values above the parent's
			}
		}
	}
	if got := ask(t, m, "sh", "-c", fmt.Sprintf("for i in $(seq %d); do sleep 600 >/dev/null 2>&1 & done 2>&1", 2*(limits.PIDs+egressLimits.PIDs))); !strings.Contains(got.Output, "fork") {
		t.Errorf("the machine has as many processes as it likes: %+v", got)
	}
	for _, h := range all {
		for _, c := range h.Limited() {
			for _, f := range h.Files(c, cgroup.Limits(plus(limits, egressLimits))) {
				got, err := os.ReadFile(filepath.Join(h.Dir, m.cgroup, f.Name))
				if err != nil && !f.Optional || err == nil && strings.TrimSpace(string(got)) != f.Value {
					t.Errorf("%s of the parent is %q, %v; want %s", f.Name, got, err, f.Value)
				}
			}
		}
	}
}

// TestEgressIsBounded checks that each machine's egress process has its own
// cgroup with limits, its own user and a seccomp filter.
func TestEgressIsBounded(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	other, err := r.Create(t.Context(), machine.Spec{ID: "m-2", Image: "host", Network: anywhere})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	m := create(t, r, machine.Spec{Image: "host", Network: anywhere, Limits: machine.Limits{MemoryBytes: 64 << 20, CPUs: 0.5, PIDs: 30}}).(*Machine)
	all, err := cgroup.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		if len(h.Limited()) == 0 {
			continue
		}
		pids, err := cgroup.Processes(filepath.Join(h.Dir, m.cgroup, egressCgroup))
		if err != nil || len(pids) != 1 {
			t.Errorf("%s: the gateway's cgroup holds %v, %v", h.Dir, pids, err)
			continue
		}
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pids[0])); err != nil || !strings.Contains(string(line), m.gatewayFlag()+"\x00") {
			t.Errorf("%s: the gateway's cgroup holds %v, %v", h.Dir, pids, err)
		}
	}
	users := map[string]bool{}
	for _, m := range []*Machine{m, other.(*Machine)} {
		pid, err := process.PID(m.path("link/" + gatewayProcess))
		if err != nil {
			t.Fatal(err)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			switch key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t"); {
			case key == "Uid":
				users[strings.Fields(value)[0]] = true
			case key == "Seccomp" && value != "2", key == "CapEff" && strings.Trim(value, "0") != "", key == "NoNewPrivs" && value != "1":
				t.Errorf("the gateway of %s: %s", m.id, line)
			}
		}
	}
	if len(users) != 2 || users["0"] || users["65534"] {
		t.Errorf("two gateways run as the users %v", users)
	}
}

// TestSharedFolderIsBounded fills the folder that the machine shares with the
// host. The files must use no space on the host's disk, and the machine must
// stay reachable.
func TestSharedFolderIsBounded(t *testing.T) {
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			m := create(t, newRuntime(t, t.TempDir(), path), machine.Spec{Image: "host"}).(*Machine)
			got := ask(t, m, "sh", "-c", "head -c 10m /dev/zero 2>/dev/null > /run/aloft/full; cd /run/aloft; seq 1000 | xargs touch 2>/dev/null; ls /run/aloft | wc -l; du -sk /run/aloft | cut -f1")
			var files, kib int
			lines := strings.Split(strings.TrimSpace(got.Output), "\n")
			if _, err := fmt.Sscan(strings.Join(lines[max(0, len(lines)-2):], " "), &files, &kib); err != nil || files > 32 || kib > 128 {
				t.Errorf("%d files and %d KiB fit into the folder, %v: %s", files, kib, err, got.Output)
			}
			var shared, disk unix.Stat_t
			if err := errors.Join(unix.Stat(m.path("run"), &shared), unix.Stat(m.dir, &disk)); err != nil || shared.Dev == disk.Dev {
				t.Errorf("the folder lies on the host's disk, %v", err)
			}
			if got := ask(t, m, "echo", "there"); got.Output != "there\n" {
				t.Errorf("the machine says %+v", got)
			}
			if err := m.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := m.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := ask(t, m, "ls", "/run/aloft"); got.Output != socketName+"\n" {
				t.Errorf("after a restart the folder holds %q", got.Output)
			}
		})
	}
}

// TestEverythingWrittenIsCounted checks that a machine's disk usage includes
// its log and the inodes of empty files.
func TestEverythingWrittenIsCounted(t *testing.T) {
	m := create(t, newRuntime(t, t.TempDir(), engines(t)["runc"]), machine.Spec{Image: "host"}).(*Machine)
	used := func() int64 {
		n, err := m.DiskBytes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	ask(t, m, "sh", "-c", "head -c 20m /dev/zero > /proc/1/fd/1")
	if n := used(); n < 20<<20 {
		t.Errorf("20 MiB in the log count as %d bytes", n)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(m.dir, &disk); err != nil {
		t.Fatal(err)
	}
	if disk.Files == 0 {
		return // this file system has no fixed number of inodes
	}
	const files = 5000
	ask(t, m, "sh", "-c", fmt.Sprintf("mkdir /empty && cd /empty && seq %d | xargs touch", files))
	if n, share := used(), int64(disk.Blocks)*disk.Bsize/int64(disk.Files); n < files*share {
		t.Errorf("%d empty files count as %d bytes; an inode's share of the disk is %d", files, n, share)
	}
}

// TestManyOpenFiles measures a machine whose processes hold more file
// descriptors than the guard inspects.
func TestManyOpenFiles(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	m := create(t, r, machine.Spec{Image: "host"}).(*Machine)
	ask(t, m, "bash", "-c", "for i in $(seq 20 900); do eval \"exec $i</dev/null\"; done; sleep 1000 </dev/null >/dev/null 2>&1 &")
	if _, err := m.DiskBytes(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.maxHeld = 800
	if _, err := m.DiskBytes(t.Context()); !errors.Is(err, machine.ErrTooManyFiles) {
		t.Errorf("got %v", err)
	}
}

// TestDeepFilesAreCounted hides a file in folders that are nested deeper than
// the maximum path length and the maximum number of open folders. The file must
// be counted.
func TestDeepFilesAreCounted(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	m := create(t, r, machine.Spec{Image: "host"}).(*Machine)
	ask(t, m, "perl", "-e", `mkdir "/deep" and chdir "/deep" or die; for (1..6000) { mkdir "d" and chdir "d" or die $! } open F, ">", "hidden" or die; for (1..20) { print F "x" x (10 << 20) }`)
	if n, err := m.DiskBytes(t.Context()); err != nil || n < 200<<20 {
		t.Errorf("200 MiB in deep folders count as %d bytes, %v", n, err)
	}
}
