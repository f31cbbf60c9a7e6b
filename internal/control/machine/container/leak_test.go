package container

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine"
	"aloft/internal/control/poll"
	"aloft/internal/policy"
)

// left lists what machines have left on the host outside of their folders:
// mounts, cgroups, and processes whose arguments contain the folder.
func left(dir, prefix string) ([]string, error) {
	var out []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			out = append(out, "mount "+f[4])
		}
	}
	for _, h := range cgroup.Parse(string(mounts)) {
		found, err := filepath.Glob(filepath.Join(h.Dir, prefix+"*"))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			out = append(out, "cgroup "+f)
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A zombie that the host's init has not reaped yet is not a leak.
		if status, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status")); err != nil || strings.Contains(string(status), "\nState:\tZ") {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")) // an error means that the process has exited
		halfway := strings.HasSuffix(string(line), "runc\x00init\x00")
		root, _ := os.Readlink(filepath.Join("/proc", e.Name(), "root"))
		groups, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup"))
		if halfway || strings.Contains(string(line), dir+"/machines") || strings.HasPrefix(root, dir+"/") || strings.Contains(string(groups), prefix) {
			out = append(out, fmt.Sprintf("process %d %q", pid, line))
		}
	}
	return out, nil
}

// checkClean fails the test unless all leftovers disappear within a few
// seconds. Killed processes take a moment to exit.
func checkClean(t *testing.T, r *Runtime) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	wait := poll.New(50 * time.Millisecond)
	for {
		got, err := left(r.conf.Dir, r.prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{"machines", "trash"} {
			entries, err := os.ReadDir(filepath.Join(r.conf.Dir, d))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				got = append(got, d+"/"+e.Name())
			}
		}
		if len(got) == 0 {
			return
		}
		if wait.Pause(ctx) != nil {
			t.Fatalf("left behind:\n%s", strings.Join(got, "\n"))
		}
	}
}

func TestDestroyLeavesNothing(t *testing.T) {
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, t.TempDir(), path)
			m, err := r.Create(t.Context(), machine.Spec{ID: "m-1", Image: "host", Network: anywhere, Limits: machine.Limits{MemoryBytes: 512 << 20, CPUs: 1, PIDs: 200}})
			if err != nil {
				t.Fatal(err)
			}
			// This process leaves PID 1's session and ignores signals.
			ask(t, m, "sh", "-c", "setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000' </dev/null >/dev/null 2>&1 & mkdir -p /var/deep/er && echo x > /var/deep/er/file")
			if got, err := left(r.conf.Dir, r.prefix); err != nil || len(got) < 2 {
				t.Fatalf("a running machine shows only %v, %v: this test would see nothing", got, err)
			}
			if err := m.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkClean(t, r)
		})
	}
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	need := engines(t)
	for name, fail := range map[string]string{
		"engine fails at once":        "#!/bin/sh\necho broken >&2\nexit 1\n",
		"engine fails after its work": "#!/bin/sh\n" + need["runc"] + " \"$@\"\necho broken >&2\nexit 1\n",
		"engine writes no pid":        "#!/bin/sh\nexit 0\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			engine := filepath.Join(dir, "engine")
			if err := os.WriteFile(engine, []byte(fail), 0o755); err != nil {
				t.Fatal(err)
			}
			r := newRuntime(t, filepath.Join(dir, "data"), engine)
			_, err := r.Create(t.Context(), machine.Spec{ID: "m-1", Image: "host", Network: anywhere})
			if err == nil {
				t.Fatal("Create is no error")
			}
			if strings.Contains(name, "fails") && !strings.Contains(err.Error(), "broken") {
				t.Errorf("the error does not quote the engine: %v", err)
			}
			checkClean(t, r)
		})
	}
}

// TestKilledServer repeatedly kills a server that creates and destroys
// machines. A new server must then remove all leftovers.
func TestKilledServer(t *testing.T) {
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			random := rand.New(rand.NewPCG(1, 2))
			for round := range 20 {
				at := time.Duration(random.IntN(250)) * time.Millisecond
				killServer(t, dir, path, round, "ready", at)
				r := newRuntime(t, dir, path)
				ids, err := r.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range ids {
					m, err := r.Open(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					if err := m.Destroy(t.Context()); err != nil {
						t.Fatalf("killed after %v: %v", at, err)
					}
				}
				checkClean(t, r)
			}
		})
	}
}

// killServer runs a server in a child process, waits until it has printed line,
// and kills it after a further delay.
func killServer(t *testing.T, dir, engine string, round int, line string, after time.Duration) {
	t.Helper()
	bin, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{dir, engine, bin, strconv.Itoa(round)}, "|"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := bufio.NewScanner(out)
	for printed.Scan() && printed.Text() != line {
	}
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Signal(unix.SIGKILL) })
	defer kill.Stop()
	_ = cmd.Wait() // the child was killed, so the error is expected
}

// anywhere is a network policy that allows every connection. With a policy,
// each machine starts an egress process.
var anywhere = policy.Network{Mode: policy.AllowAll}

const childEnv = "ALOFT_TEST_CHILD"

// child is the server that the test kills. In a loop it creates two machines at
// a time and destroys one of them.
func child(args []string) int {
	switch args[len(args)-1] {
	case freezeChild:
		return freezer(args[0], args[1], args[2], args[3], args[4])
	case memoryChild:
		return sleeper(args[0], args[1], args[2], args[3])
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r, err := New(Config{Dir: args[0], RuntimePath: args[1], Binaries: args[2], Gateway: []string{self, gatewayChild}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	// Create one machine before the clock starts. The first takes longer,
	// because it creates the layers.
	m, err := r.Create(ctx, machine.Spec{ID: "m-first-" + args[3], Image: "host", Network: anywhere})
	if err == nil {
		err = m.Destroy(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stdout, "ready")
	for n := 0; ; n++ {
		for _, half := range []string{"a", "b"} {
			id := fmt.Sprintf("m-%s-%d-%s", args[3], n, half)
			m, err := r.Create(ctx, machine.Spec{ID: id, Image: "host", Network: anywhere})
			if err == nil && half == "a" {
				err = m.Destroy(ctx)
			}
			fmt.Fprintln(os.Stdout, id)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
}

// TestMachineOutlivesServer reopens a machine whose server was killed.
func TestMachineOutlivesServer(t *testing.T) {
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			killServer(t, dir, path, 1, "m-1-0-b", 0)
			r := newRuntime(t, dir, path)
			ids, err := r.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(ids)
			if !slices.Contains(ids, "m-1-0-b") {
				t.Fatalf("List is %v", ids)
			}
			for _, id := range ids {
				m, err := r.Open(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if id == "m-1-0-b" {
					if got := ask(t, m, "cat", "/etc/hostname"); got.Output != "cursor\n" {
						t.Errorf("the machine answers %+v", got)
					}
				}
				if err := m.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			}
			checkClean(t, r)
		})
	}
}
