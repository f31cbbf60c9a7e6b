package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/control/pod"
	"aloft/internal/wire/podv1"
)

// wrote waits until a file in the machine's workspace has the contents.
func (m *aMachine) wrote(name, want string) {
	m.t.Helper()
	until(m.t, name+" is written", func() error {
		got, err := os.ReadFile(filepath.Join(m.workspace(), name))
		if err == nil && string(got) != want {
			err = fmt.Errorf("it holds %q, not %q", got, want)
		}
		return err
	})
}

// TestSignalsArePassedOn checks that pod-daemon forwards signals that it does
// not handle to exec-daemon.
func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	m.mustBoot(m.dial(f), pod.Checkout{})
	want := ""
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if err := m.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf("exec-daemon: %s\n", sig)
		m.wrote("signals", want)
	}
}

// TestStopsInOrder checks, for each way to stop the machine, that exec-daemon
// ends first, then the other processes in reverse order of their start. A
// process that does not end must be killed.
func TestStopsInOrder(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*aMachine, *pod.Conn, *plane) error{
		"SIGTERM":  func(m *aMachine, _ *pod.Conn, _ *plane) error { return m.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":   func(m *aMachine, _ *pod.Conn, _ *plane) error { return m.cmd.Process.Signal(syscall.SIGINT) },
		"Shutdown": func(m *aMachine, c *pod.Conn, _ *plane) error { return c.Shutdown(m.t.Context()) },
		"StopMachine": func(m *aMachine, _ *pod.Conn, p *plane) error {
			_, err := p.StopMachine(m.t.Context(), connect.NewRequest(&podv1.StopMachineRequest{}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, f := newMachine(t), newForge(t)
			m.start()
			c := m.dial(f)
			m.mustBoot(c, pod.Checkout{})
			p := m.plane(nil)
			ready := ""
			for _, s := range []struct{ name, onTerm string }{{"first", "echo first >> signals; exit"}, {"deaf", "echo deaf >> signals"}, {"last", "echo last >> signals; exit"}} {
				script := fmt.Sprintf("trap '%s' TERM; echo %s >> ready; while :; do sleep 0.05; done", s.onTerm, s.name)
				if _, err := p.StartProcess(t.Context(), connect.NewRequest(&podv1.StartProcessRequest{Name: s.name, Command: []string{"sh", "-c", script}})); err != nil {
					t.Fatal(err)
				}
				ready += s.name + "\n"
				m.wrote("ready", ready)
			}
			if err := stop(m, c, p); err != nil {
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
			m.wrote("signals", "exec-daemon: terminated\nlast\ndeaf\nfirst\n")
		})
	}
}

// TestPausesGrow checks that a process that keeps exiting is restarted after
// increasing delays.
func TestPausesGrow(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	m.mustBoot(m.dial(f), pod.Checkout{})
	p := m.plane(nil)
	if _, err := p.StartProcess(t.Context(), connect.NewRequest(&podv1.StartProcessRequest{Name: "ends", Command: []string{"sh", "-c", "date +%s%N >> starts; exit 3"}})); err != nil {
		t.Fatal(err)
	}
	var at []int64
	until(t, "it was started five times", func() error {
		text, err := os.ReadFile(filepath.Join(m.workspace(), "starts"))
		if err != nil {
			return err
		}
		at = nil
		for line := range strings.FieldsSeq(string(text)) {
			n, err := strconv.ParseInt(line, 10, 64)
			if err != nil {
				return err
			}
			at = append(at, n)
		}
		if len(at) < 5 {
			return fmt.Errorf("%d times", len(at))
		}
		return nil
	})
	for i, least := 1, 50*time.Millisecond; i < 5; i, least = i+1, 2*least {
		// Allow a pause that is slightly too short, because the previous process may have
		// recorded its time late.
		if pause := time.Duration(at[i] - at[i-1]); i > 1 && pause < least/2 {
			t.Errorf("start %d came %s after the one before, want %s or more", i, pause, least)
		}
	}
	ends := p.named(t, "ends")
	if ends.GetRestarts() < 3 || ends.GetLastExit().GetCode() != 3 {
		t.Errorf("%v", ends)
	}
}
