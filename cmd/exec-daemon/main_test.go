package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aloft/internal/control/execclient"
	"aloft/internal/control/pod"
	"aloft/internal/conversation"
	"aloft/internal/guest/ripgrep"
	"aloft/internal/need"
)

// beMain makes the test binary act as exec-daemon, so that a test can kill it.
const beMain = "TEST_BE_EXEC_DAEMON"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "pdf-text" || os.Args[1] == ripgrep.Argument) {
		main()
	}
	if len(os.Args) > 1 && os.Args[1] == "mcp-server" {
		if err := serveMCP(); err != nil {
			panic(err)
		}
		return
	}
	if os.Getenv(beMain) != "" {
		if err := os.Unsetenv(beMain); err != nil {
			panic(err)
		}
		main()
		return
	}
	os.Exit(m.Run())
}

var token = strings.Repeat("0123456789abcdef", 4)

// daemon is an exec-daemon process and a client of it.
type daemon struct {
	t         testing.TB
	workspace string
	state     string
	program   string
	more      []string            // flags of the daemon
	user      *syscall.Credential // user of the process; nil means the test's user
	env       []string            // variables that the test adds

	mu    sync.Mutex
	cmd   *exec.Cmd
	addr  string
	pty   string
	conns []net.Conn
	lost  bool
	away  func() // called when a dial fails
}

func start(t testing.TB, settings ...func(*daemon)) *daemon {
	t.Helper()
	need.Command(t, "bash")
	// Commands that outlive a killed daemon may still write to the folder.
	workspace, err := os.MkdirTemp("", "exec-daemon-test-*")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, workspace: workspace, state: filepath.Join(workspace, ".state"), program: os.Args[0]}
	t.Cleanup(func() { _ = os.RemoveAll(workspace) })
	for _, set := range settings {
		set(d)
	}
	d.start()
	t.Cleanup(func() { _ = d.signal(syscall.SIGKILL) }) // the daemon may have ended already
	return d
}

// start starts exec-daemon and waits until it listens.
func (d *daemon) start() {
	d.t.Helper()
	cmd := exec.Command(d.program, "serve", "--port", "0", "--pty-websocket-port", "0", "--state-dir", d.state, "--workspace", d.workspace,
		"--output-dir", filepath.Join(d.workspace, ".output"), "--index-dir", filepath.Join(d.workspace, ".index"),
		"--recording-dir", filepath.Join(d.workspace, ".recording"))
	cmd.Args = append(cmd.Args, d.more...)
	cmd.Env = append(os.Environ(), beMain+"=1", variable("auth-token")+"="+token)
	cmd.Env = append(cmd.Env, d.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.user}
	said, err := cmd.StderrPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		var line struct{ Msg, Addr, PTY string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			d.mu.Lock()
			d.cmd, d.addr, d.pty = cmd, line.Addr, line.PTY
			d.mu.Unlock()
			go func() {
				for lines.Scan() {
					if bytes.Contains(lines.Bytes(), []byte(token)) {
						d.t.Errorf("the token is in the log: %s", lines.Bytes())
					}
				}
			}()
			return
		}
		d.t.Log(lines.Text())
	}
	d.t.Fatalf("exec-daemon does not listen: %v", cmd.Wait())
}

// signal sends the signal and returns the error with which the process exited.
func (d *daemon) signal(s syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.cmd.Process.Signal(s) // the daemon may have ended already
	return d.cmd.Wait()
}

func (d *daemon) dial(ctx context.Context) (net.Conn, error) {
	d.mu.Lock()
	addr, lost, away := d.addr, d.lost, d.away
	d.mu.Unlock()
	if lost {
		return nil, fmt.Errorf("%w: says the test", pod.ErrLost)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil && away != nil {
		away()
	}
	if err == nil {
		d.mu.Lock()
		d.conns = append(d.conns, conn)
		d.mu.Unlock()
	}
	return conn, err
}

// cut breaks every connection.
func (d *daemon) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.conns {
		_ = conn.Close()
	}
	d.conns = nil
}

func (d *daemon) client(options ...execclient.Option) *execclient.Calls {
	e := execclient.NewCalls(d.dial, token, options...)
	d.t.Cleanup(func() { _ = e.Close() })
	return e
}

// lines counts the lines of a file in the workspace.
func (d *daemon) lines(name string) int {
	b, err := os.ReadFile(filepath.Join(d.workspace, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
	return bytes.Count(b, []byte("\n"))
}

// within returns a context that times out after two minutes, so that a hanging
// test fails.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func bashCall(id, command string) conversation.ToolCall {
	args, err := json.Marshal(map[string]any{"command": command})
	if err != nil {
		panic(err) // a map of strings
	}
	return conversation.ToolCall{ID: id, Name: "Shell", Args: args}
}
