package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/control/pod"
	"aloft/internal/need"
	"aloft/internal/wire/podv1"
)

// windows is a shell command that waits until a window manager is running.
const windows = `until xprop -root _NET_SUPPORTING_WM_CHECK | grep -q "window id"; do sleep 0.05; done`

// TestDesktopIsStartedByWhoComes checks that the desktop starts when a program
// connects to the display, and not earlier.
func TestDesktopIsStartedByWhoComes(t *testing.T) {
	t.Parallel()
	need.Command(t, "Xtigervnc")
	need.Command(t, "xdpyinfo")
	need.Command(t, "x-window-manager")
	need.Command(t, "dbus-send")
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	p := m.plane(nil)
	vnc := func() *podv1.Process {
		res, err := p.ListProcesses(t.Context(), connect.NewRequest(&podv1.ListProcessesRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, process := range res.Msg.GetProcesses() {
			if process.GetName() == "desktop-vnc" {
				return process
			}
		}
		return nil
	}
	run := func(command string) string {
		t.Helper()
		var out strings.Builder
		exit, err := c.RunCommand(t.Context(), command, 2*time.Minute, &out)
		if err != nil || exit.Code != 0 {
			t.Fatalf("%s: %v %v\n%s", command, exit, err, out.String())
		}
		return out.String()
	}

	if one := vnc(); one != nil {
		t.Fatalf("a desktop that nobody asked for: %v", one)
	}
	run("dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetId")
	if one := vnc(); one != nil {
		t.Fatalf("a desktop for one who asked for D-Bus: %v", one)
	}
	// The system bus starts too; without it, browsers complain. Root starts it,
	// and it runs as its own user.
	if said := run("dbus-send --system --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetConnectionUnixUser string:org.freedesktop.DBus"); strings.Contains(said, "uint32 0\n") {
		t.Errorf("the system bus runs as root: %s", said)
	}
	if said := run("xdpyinfo"); !strings.Contains(said, "1920x1200 pixels") || !strings.Contains(said, "96x96 dots per inch") {
		t.Errorf("the screen is\n%s", said)
	}

	run(windows)

	// If the VNC server is killed, another one listens on the same socket, and the programs on
	// its screen are restarted.
	first := vnc().GetPid()
	if _, err := p.SignalProcess(t.Context(), connect.NewRequest(&podv1.SignalProcessRequest{Name: "desktop-vnc", Signal: "SIGKILL"})); err != nil {
		t.Fatal(err)
	}
	until(t, "it is gone", func() error {
		if pid := vnc().GetPid(); pid == first {
			return fmt.Errorf("%d is there", pid)
		}
		return nil
	})
	run("xdpyinfo")
	run(windows)

	// The VNC server survives a second boot.
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	second := vnc().GetPid()
	run("xdpyinfo")
	if pid := vnc().GetPid(); pid != second {
		t.Errorf("%d is another than %d", pid, second)
	}
}

// TestDesktopIsStartedByItsPort checks that a connection to the VNC port starts
// the desktop too, with the agent's screen settings.
func TestDesktopIsStartedByItsPort(t *testing.T) {
	t.Parallel()
	need.Command(t, "Xtigervnc")
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	if _, err := c.Boot(t.Context(), pod.Boot{
		Checkout: pod.Checkout{RepoURL: repoURL, Branch: "b", Path: m.workspace()}, ExecToken: token, GitCredential: "cred-of-the-run",
		Env: map[string]string{"VNC_RESOLUTION": "1280x800"},
	}, func(pod.Step) {}); err != nil {
		t.Fatal(err)
	}
	var conn io.ReadWriteCloser
	until(t, "the port is there", func() (err error) { // on a busy host it may take two attempts
		conn, err = c.DialPort(t.Context(), 5901)
		return err
	})
	defer conn.Close()
	hear := func(n int) []byte {
		t.Helper()
		b := make([]byte, n)
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	hello := hear(12)
	if string(hello) != "RFB 003.008\n" {
		t.Fatalf("it greets with %q", hello)
	}
	_, _ = conn.Write(hello)
	hear(int(hear(1)[0]))
	_, _ = conn.Write([]byte{1}) // no credentials
	hear(4)
	_, _ = conn.Write([]byte{1}) // the viewer shares the screen
	if size := hear(4); [4]byte(size) != [4]byte{1280 >> 8, 1280 & 255, 800 >> 8, 800 & 255} {
		t.Errorf("the screen's size is %v", size)
	}
	if _, err := c.DialPort(t.Context(), 5902); !errors.Is(err, pod.ErrNobodyListens) {
		t.Errorf("a port where nobody listens: %v", err)
	}
}

func TestMachineWithoutDesktop(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.more = []string{"--desktop-dir", ""}
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	if _, err := c.DialPort(t.Context(), 5901); !errors.Is(err, pod.ErrNobodyListens) {
		t.Errorf("its port: %v", err)
	}
	exit, err := c.RunCommand(t.Context(), `test -z "$DISPLAY" && ! test -e /tmp/.X11-unix/X1`, time.Minute, io.Discard)
	if err != nil || exit.Code != 0 {
		t.Errorf("it has a display: %v %v", exit, err)
	}
}
