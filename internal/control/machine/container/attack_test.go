package container

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/policy/calls"
)

// attacked is a machine that has the probe of test/e2e beside its own programs.
func attacked(t *testing.T, limits machine.Limits) machine.Machine {
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
	return create(t, start(t, conf), machine.Spec{Image: "host", Limits: limits})
}

// attempts runs a part of the probe, and returns what came of each attempt.
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

// TestCalls makes every kind of system call that the table of package calls is
// about: each ABI, family, type and protocol of socket, namespace and file system.
func TestCalls(t *testing.T) {
	m := attacked(t, machine.Limits{MemoryBytes: 512 << 20, CPUs: 1, PIDs: 200})
	for who, wrap := range map[string]string{"root": "", "user": asUser} {
		found := attempts(t, m, wrap, "calls")
		if who == "root" { // for others, the kernel says EPERM too
			checkSockets(t, found["socket"])
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
					ok = result != "done"
				case strings.HasPrefix(name, "nested "):
					ok = result == "done" // what the sandbox and browsers stand on
				}
				if !ok {
					t.Errorf("%s: %s: %s", who, name, result)
				}
			}
		}
		tried := []string{"wide socket netfilter", "limits with no cgroup namespace", "mount type cgroup"}
		if hostFacts().arch == "amd64" {
			tried = append(tried, "abi i386 socketcall", "abi x32 socket vsock")
		}
		for _, name := range tried {
			if len(found[name]) == 0 {
				t.Errorf("%s: %s was not tried", who, name)
			}
		}
	}
}

// checkSockets holds the kinds of socket that pass, as "FAMILY TYPE PROTOCOL", to the table.
func checkSockets(t *testing.T, passed []string) {
	t.Helper()
	seen := map[*calls.Socket]bool{}
	table := calls.SocketsOf(calls.Machine)
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
