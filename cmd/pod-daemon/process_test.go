package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aloft/internal/control/pod"
)

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func chown(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("chown", "-R", "nobody", dir).CombinedOutput(); err != nil {
		t.Fatalf("chown: %v: %s", err, out)
	}
}

// zombies is a command that counts the zombies that are visible in the machine.
const zombies = `cat /proc/[0-9]*/stat 2>/dev/null | awk '$3=="Z"' | wc -l`

func TestOrphans(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	sh := m.shell(c)
	// While ten thousand orphans end, as many as in a busy minute, the reaper must not take
	// the exit status of the daemon's own children (git).
	var work sync.WaitGroup
	work.Go(func() {
		sh.run(`for i in $(seq 10000); do (: & ) ; done`)
	})
	for range 10 {
		if _, _, err := c.Diff(t.Context(), 0, ""); err != nil {
			t.Errorf("diff among orphans: %v", err)
		}
		if _, err := c.Commit(t.Context(), 0, "x", false, nil); err != nil {
			t.Errorf("commit among orphans: %v", err)
		}
	}
	work.Wait()
	until(t, "zombies are gone", func() error {
		if n := sh.run(zombies); n != "0" {
			return fmt.Errorf("%s zombies", n)
		}
		if n := sh.run("pgrep -c -x sleep || true"); n != "0" {
			return fmt.Errorf("%s orphans live", n)
		}
		return nil
	})
	if s, err := c.Status(t.Context()); err != nil || s.ExecRestarts != 0 || !s.ExecRunning || !s.Booted {
		t.Errorf("status: %+v, %v", s, err)
	}
}

func TestExecDaemonKilled(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{})
	sh := m.shell(c)
	sh.run("setsid sh -c 'sleep 1000' >/dev/null 2>&1 & (setsid sleep 1001 >/dev/null 2>&1 &); sleep 1002 >/dev/null 2>&1 &")
	until(t, "three sleep", func() error {
		if n := sh.run("pgrep -c -x sleep"); n != "3" {
			return fmt.Errorf("%s sleep", n)
		}
		return nil
	})
	if _, err := sh.try("kill -9 $PPID"); err == nil {
		t.Error("the stream outlived exec-daemon")
	}
	// A new stream is served by the next exec-daemon, or by the dying one if that
	// one accepts the stream just before it dies.
	var left string
	until(t, "exec-daemon is there again", func() (err error) {
		left, err = m.shell(c).try("pgrep -c -x sleep || true")
		return err
	})
	if left != "0" {
		t.Errorf("%s processes of the dead exec-daemon live on", left)
	}
	s, err := c.Status(t.Context())
	if err != nil || s.ExecRestarts != 1 || !s.ExecRunning {
		t.Errorf("status: %+v, %v", s, err)
	}
	if _, steps, err := m.boot(c, pod.Checkout{}); err != nil || steps["exec-daemon"].Detail != "already running" {
		t.Errorf("boot: %+v, %v", steps, err)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*aMachine, *pod.Conn) error{
		"SIGTERM":  func(m *aMachine, _ *pod.Conn) error { return m.cmd.Process.Signal(syscall.SIGTERM) },
		"Shutdown": func(m *aMachine, c *pod.Conn) error { return c.Shutdown(m.t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, f := newMachine(t), newForge(t)
			m.start()
			c := m.dial(f)
			m.mustBoot(c, pod.Checkout{})
			m.shell(c).run(`setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' >/dev/null 2>&1 &`)
			begun := time.Now()
			if err := stop(m, c); err != nil {
				t.Fatal(err)
			}
			select {
			case <-m.done:
			case <-time.After(2 * time.Minute):
				t.Fatal("it does not end")
			}
			if !m.cmd.ProcessState.Success() {
				t.Errorf("exit: %v", m.cmd.ProcessState)
			}
			t.Logf("stopped in %v", time.Since(begun))
			<-c.Done()
		})
	}
}

// TestHang checks that a hanging exec-daemon is detected, and that no request
// waits for it in the meantime.
func TestHang(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.start()
	c := m.dial(nil)
	if err := m.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "it has stopped", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.cmd.Process.Pid))
		if err != nil {
			return err
		}
		if state := strings.Fields(string(stat))[2]; state != "T" {
			return fmt.Errorf("its state is %s", state)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Status(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("status: %v, want the deadline's error", err)
	}
	begun := time.Now()
	select {
	case <-c.Done():
		t.Logf("noticed after %v", time.Since(begun))
	case <-time.After(2 * time.Minute):
		t.Error("it is not noticed")
	}
}

// TestOrdinaryProcess runs pod-daemon outside of a container, where it must
// adopt its children's orphans.
func TestOrdinaryProcess(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	args := m.args("--git-listen", "127.0.0.1:0", "--exec-addr", freeAddrs(t, 1)[0])
	m.run(exec.Command(args[0], args[1:]...), nil)
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{})
	sh := m.shell(c)
	pidFile := filepath.Join(m.disk, "workspace", "pid")
	sh.run("(setsid sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 &)")
	var pid int
	until(t, "the orphan says its pid", func() error {
		text, err := os.ReadFile(pidFile)
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	})
	until(t, "the orphan is pod-daemon's", func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		if parent := strings.Fields(string(stat))[3]; parent != strconv.Itoa(m.cmd.Process.Pid) {
			return fmt.Errorf("its parent is %s", parent)
		}
		return nil
	})
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-m.done
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the orphan outlived pod-daemon: %v", err)
	}
}
