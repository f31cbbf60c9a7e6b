package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/need"
	"aloft/internal/policy"
)

const memoryChild = "memory"

// strong returns a configuration with the product's guest and gVisor.
func strong(t testing.TB, dir string) Config {
	t.Helper()
	need.Root(t)
	need.File(t, "runsc", builtRunsc)
	bin, err := daemon()
	if err != nil {
		t.Fatal(err)
	}
	conf := config(t, dir, absolute(t, builtRunsc))
	conf.Binaries = bin
	return conf
}

// ran runs a command in the machine as the agent's user, and returns its output
// and an id of the machine's current boot.
func ran(t testing.TB, m machine.Machine, command string) (output, life string) {
	t.Helper()
	conn, err := pod.Dial(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	status, err := conn.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := conn.RunCommand(t.Context(), command, time.Minute, &out); err != nil {
		t.Fatal(err)
	}
	return out.String(), status.BootID
}

// counting is a command that starts a process that counts in memory.
const counting = `setsid sh -c 'n=0; while :; do n=$((n+1)); echo $n > /dev/shm/n.new; mv /dev/shm/n.new /dev/shm/n; sleep 0.02; done' </dev/null >/dev/null 2>&1 &
	while [ ! -e /dev/shm/n ]; do sleep 0.01; done; echo file > ~/file; sync`

// counted waits until counting's counter increases, and returns its value, or 0
// if the counter does not run.
func counted(t *testing.T, m machine.Machine) (n int, life string) {
	t.Helper()
	out, life := ran(t, m, `a=$(cat /dev/shm/n 2>/dev/null) || exit 0; for i in $(seq 500); do b=$(cat /dev/shm/n); [ $b -gt $a ] && echo $b && exit; sleep 0.01; done`)
	n, _ = strconv.Atoi(strings.TrimSpace(out)) // empty output means 0
	return n, life
}

// letGo returns a function that tells the guest to close its connections.
func letGo(m machine.Machine) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := pod.Dial(ctx, m, nil)
		if err != nil {
			return err
		}
		return conn.Quiesce(ctx)
	}
}

// TestMemory suspends and resumes a machine several times. A counter in its
// memory must continue; a connection to the outside must break, and a new one
// must work.
func TestMemory(t *testing.T) {
	came, stay := make(chan struct{}, 1), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stay" {
			w.(http.Flusher).Flush()
			came <- struct{}{}
			<-stay
		}
	}))
	t.Cleanup(func() { close(stay); srv.Close() })
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	r := start(t, strong(t, t.TempDir()))
	m := create(t, r, machine.Spec{Image: "host", Network: opened(policy.AllowAll), Limits: machine.Limits{MemoryBytes: 1 << 30}}).(*Machine)
	ran(t, m, counting)
	ran(t, m, "setsid sh -c 'curl -sS http://172.30.0.1:"+port+"/stay > /dev/shm/curl 2>&1; echo $? >> /dev/shm/curl' </dev/null >/dev/null 2>&1 &")
	<-came
	before, life := counted(t, m)
	for range 2 {
		if err := m.Checkpoint(t.Context(), letGo(m)); err != nil {
			t.Fatal(err)
		}
		if m.Running() || !m.Asleep() {
			t.Fatal("it does not sleep")
		}
		info, err := os.Stat(m.path(memorySaved))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
		if used, err := m.DiskBytes(t.Context()); err != nil || used < 500_000 {
			t.Errorf("asleep it takes %d bytes, %v", used, err)
		}
		if err := m.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		after, same := counted(t, m)
		if after <= before || same != life {
			t.Errorf("it counts %d after %d, in the life %s after %s", after, before, same, life)
		}
		before = after
		if m.Asleep() {
			t.Error("memory that is in use is kept")
		}
	}
	out, _ := ran(t, m, "for i in $(seq 1000); do [ $(wc -l < /dev/shm/curl) -ge 2 ] && break; sleep 0.01; done; cat /dev/shm/curl; curl -sS http://172.30.0.1:"+port+"/ && echo new")
	if !strings.HasPrefix(out, "curl: (") || !strings.HasSuffix(out, "new\n") {
		t.Errorf("of connections: %s", out)
	}

	// A memory image is not used if it is damaged or another engine has written
	// it.
	for _, damage := range []func(image string) error{
		func(image string) error { return os.Truncate(filepath.Join(image, "checkpoint.img"), 100_000) },
		func(image string) error { return os.Remove(filepath.Join(image, memorySums)) },
	} {
		ran(t, m, counting)
		if err := m.Checkpoint(t.Context(), letGo(m)); err != nil {
			t.Fatal(err)
		}
		if err := damage(m.path(memorySaved)); err != nil {
			t.Fatal(err)
		}
		if err := m.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, other := counted(t, m); n != 0 || other == life {
			t.Errorf("of a damaged memory it counts %d", n)
		}
		if out, _ := ran(t, m, "cat ~/file"); out != "file\n" {
			t.Errorf("its disk has %q", out)
		}
	}

	// If the memory cannot be saved, the processes are lost but the disk is
	// kept.
	ran(t, m, "setsid python3 -c 'import socket, time\ns = socket.socket(socket.AF_UNIX)\ns.bind(\"/var/tmp/socket\")\ns.listen()\ntime.sleep(1000)' </dev/null >/dev/null 2>&1 & while [ ! -e /var/tmp/socket ]; do sleep 0.01; done")
	if err := m.Checkpoint(t.Context(), letGo(m)); err == nil || !strings.Contains(err.Error(), "unix socket") || m.Asleep() {
		t.Errorf("with a socket on its disk: %v", err)
	}
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, _ := ran(t, m, "cat ~/file"); out != "file\n" {
		t.Errorf("its disk has %q", out)
	}
}

// TestNoMemory checks that a machine keeps running if its engine cannot save
// memory.
func TestNoMemory(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	m := create(t, r, machine.Spec{Image: "host"}).(*Machine)
	err := m.Checkpoint(t.Context(), func(context.Context) error { return errors.New("asked") })
	if !errors.Is(err, machine.ErrNoMemory) || strings.Contains(err.Error(), "asked") || !m.Running() || m.Asleep() {
		t.Errorf("it is %v", err)
	}
	ask(t, m, "true")
}

// TestNoLinkOutOfTheMachine has root in the machine place a symbolic link to a
// file of the host at a path to which the server writes when it wakes the
// machine.
func TestNoLinkOutOfTheMachine(t *testing.T) {
	need.File(t, "runsc", builtRunsc)
	r := newRuntime(t, t.TempDir(), engines(t)["runsc"])
	m := create(t, r, machine.Spec{Image: "host"}).(*Machine)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, m, "ln", "-s", victim, "/run/aloft/"+wokenFile); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	if err := m.Checkpoint(t.Context(), func(context.Context) error { return errors.New("it does not let go") }); err == nil {
		t.Fatal("it was saved")
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "whole" {
		t.Errorf("the host's file holds %q, %v", data, err)
	}
	if info, err := os.Lstat(m.path("run/" + wokenFile)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the machine is not told: %v, %v", info, err)
	}
}

// sleeper runs a server that is killed at the given step of suspending a
// machine.
func sleeper(dir, engine, bin, step string) int {
	r, err := New(Config{Dir: dir, RuntimePath: engine, Binaries: bin})
	if err == nil {
		r.step = func(at string) {
			if at == step {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
				select {}
			}
		}
		var m machine.Machine
		if m, err = r.Open(context.Background(), "m-1"); err == nil {
			err = m.(*Machine).Checkpoint(context.Background(), letGo(m))
		}
		if err == nil {
			err = m.Restart(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestKilledWhileItSleeps kills the server between the steps of suspending a
// machine. The disk must always survive. The processes may survive only if the
// memory image is complete, unused and matches the disk.
func TestKilledWhileItSleeps(t *testing.T) {
	for step, alive := range map[string]bool{
		"memory: begun": true, "memory: written": false, "memory: saved": true, "memory: in use": false, "memory: woken": true,
	} {
		t.Run(step, func(t *testing.T) {
			conf := strong(t, t.TempDir())
			r := start(t, conf)
			m := create(t, r, machine.Spec{Image: "host"}).(*Machine)
			ran(t, m, counting)
			before, life := counted(t, m)
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{conf.Dir, conf.RuntimePath, conf.Binaries, step, memoryChild}, "|"))
			out, err := cmd.CombinedOutput()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != -1 {
				t.Fatalf("the server was not killed: %v: %s", err, out)
			}
			again, err := start(t, conf).Open(t.Context(), "m-1")
			if err != nil {
				t.Fatal(err)
			}
			conn, err := pod.Dial(t.Context(), again, nil)
			if err == nil {
				err = conn.Close()
			} else if errors.Is(err, machine.ErrStopped) {
				err = again.Restart(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			after, now := counted(t, again)
			if (after > before && now == life) != alive || (after == 0) == alive {
				t.Errorf("it counts %d after %d, in the life %s after %s", after, before, now, life)
			}
			if out, _ := ran(t, again, "cat ~/file"); out != "file\n" {
				t.Errorf("its disk has %q", out)
			}
			for _, name := range []string{memoryBeingSaved, memorySaved, memoryInUse} {
				if _, err := os.Lstat(m.path(name)); err == nil && step != "memory: begun" && step != "memory: woken" {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// TestMemoryOfSeveral resumes two machines from the memory of a third, which
// also resumes. Each must count on its own and have its own disk. The memory is
// deleted with its layer.
func TestMemoryOfSeveral(t *testing.T) {
	r := start(t, strong(t, t.TempDir()))
	m := create(t, r, machine.Spec{Image: "host", Network: anywhere}).(*Machine)
	ran(t, m, counting)
	before, life := counted(t, m)
	if err := m.Checkpoint(t.Context(), letGo(m)); err != nil {
		t.Fatal(err)
	}
	id := layer.NewID(layer.Fork)
	if err := m.KeepMemory(t.Context(), id); err == nil {
		t.Error("memory is kept beside a layer that it does not belong to")
	}
	if err := m.Freeze(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := m.KeepMemory(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.KeepMemory(t.Context(), id); err == nil {
		t.Error("the memory of a machine that is awake is kept")
	}
	all := []machine.Machine{m}
	fork := func(name string, alive bool) machine.Machine {
		t.Helper()
		f, err := r.Create(t.Context(), machine.Spec{ID: name, Image: "host", Layer: id, Alive: alive, Network: anywhere})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.Destroy(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		return f
	}
	for _, name := range []string{"fork-1", "fork-2"} {
		all = append(all, fork(name, true))
	}
	for _, m := range all {
		if n, now := counted(t, m); n <= before || now != life {
			t.Errorf("%s counts %d after %d, in the life %s after %s", m.ID(), n, before, now, life)
		}
		// Each machine changes its own file and stops its own counter.
		if out, _ := ran(t, m, "cat ~/file; echo "+m.ID()+" > ~/file; pkill -f '[d]ev/shm'; cat /etc/machine-id; cat ~/file"); !strings.HasPrefix(out, "file\n") || !strings.HasSuffix(out, m.ID()+"\n") {
			t.Errorf("the disk of %s has %q", m.ID(), out)
		}
	}
	if n, now := counted(t, fork("fork-3", false)); n != 0 || now == life {
		t.Errorf("a machine that did not ask for it counts %d", n)
	}
	if err := os.Mkdir(filepath.Join(r.conf.Dir, LayersDir, "memory", id+".new"), 0o700); err != nil { // a crash can leave this file behind
		t.Fatal(err)
	}
	if err := r.Layers().Delete(id); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(r.conf.Dir, LayersDir, "memory", "*")); err != nil || len(left) > 0 {
		t.Errorf("memory is left: %v, %v", left, err)
	}
	if n, now := counted(t, fork("fork-4", true)); n != 0 || now == life {
		t.Errorf("of memory that is gone it counts %d", n)
	}
}

// answers waits until the machine's pod-daemon answers.
func answers(b *testing.B, m machine.Machine) {
	b.Helper()
	conn, err := pod.Dial(b.Context(), m, nil)
	if err == nil {
		_, err = conn.Status(b.Context())
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSleep measures how long a gVisor machine with 64 MiB in memory takes
// to suspend, to resume and to fork: with its processes and, as the baseline,
// from the disk only. A start is complete when pod-daemon replies.
func BenchmarkSleep(b *testing.B) {
	r := start(b, strong(b, b.TempDir()))
	m := create(b, r, machine.Spec{Image: "host", Network: anywhere}).(*Machine)
	sleep := func(b *testing.B, alive bool) {
		b.Helper()
		err := error(nil)
		if alive {
			err = m.Checkpoint(b.Context(), letGo(m))
		} else {
			err = m.Stop(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	wake := func(b *testing.B) {
		b.Helper()
		if err := m.Restart(b.Context()); err != nil {
			b.Fatal(err)
		}
		answers(b, m)
	}
	for _, alive := range []bool{false, true} {
		name := map[bool]string{false: "disk", true: "live"}[alive]
		ran(b, m, "cat /usr/bin/* 2>/dev/null | head -c 67108864 > /dev/shm/much")
		b.Run(name+"/sleep", func(b *testing.B) {
			for b.Loop() {
				sleep(b, alive)
				b.StopTimer()
				wake(b)
				b.StartTimer()
			}
		})
		ran(b, m, "cat /usr/bin/* 2>/dev/null | head -c 67108864 > /dev/shm/much")
		b.Run(name+"/wake", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				sleep(b, alive)
				b.StartTimer()
				wake(b)
			}
		})
		sleep(b, alive)
		id := layer.NewID(layer.Fork)
		if err := m.Freeze(b.Context(), id); err != nil {
			b.Fatal(err)
		}
		if alive {
			if err := m.KeepMemory(b.Context(), id); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name+"/fork", func(b *testing.B) {
			for b.Loop() {
				fork, err := r.Create(b.Context(), machine.Spec{ID: "fork", Image: "host", Layer: id, Alive: alive, Network: anywhere})
				if err != nil {
					b.Fatal(err)
				}
				answers(b, fork)
				b.StopTimer()
				if err := fork.Destroy(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
		wake(b)
	}

	many := func(b *testing.B) {
		b.Helper()
		ran(b, m, "mkdir -p /var/tmp/many && cd /var/tmp/many && seq 5000 | xargs touch && sync")
		sleep(b, false)
	}
	b.Run("freeze", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			many(b)
			b.StartTimer()
			if err := m.Freeze(b.Context(), layer.NewID(layer.Fork)); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			wake(b)
			b.StartTimer()
		}
	})
	many(b)
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			if out, err := exec.Command("cp", "-a", m.path("upper"), filepath.Join(b.TempDir(), "copy")).CombinedOutput(); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	})
}
