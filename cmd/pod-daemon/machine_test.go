package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
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
	"aloft/internal/need"
)

// binaries builds pod-daemon and the stand-in for exec-daemon, once.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "pod-daemon-test-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	for program, source := range map[string]string{
		"pod-daemon":              ".",
		"exec-daemon/exec-daemon": "./testdata/exec-daemon",
		"exec-daemon/sandbox":     "aloft/cmd/sandbox",
	} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, program), source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
	}
	return dir, nil
})

// text is a buffer that is safe for concurrent use.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(cgroupChild); dir != "" {
		os.Exit(leaveChild(dir))
	}
	code := m.Run()
	if dir, err := binaries(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

const token = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// aMachine is a pod-daemon as PID 1 of its own namespaces, with a disk that
// survives it.
type aMachine struct {
	t    *testing.T
	disk string
	tmp  string   // mount options of a small workspace, or ""
	more []string // flags
	cmd  *exec.Cmd
	log  text
	done chan struct{}
}

func newMachine(t *testing.T) *aMachine {
	t.Helper()
	need.Root(t)
	need.Command(t, "git")
	disk := t.TempDir()
	for dir := disk; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := &aMachine{t: t, disk: disk}
	t.Cleanup(m.kill)
	return m
}

func (m *aMachine) socket() string    { return filepath.Join(m.disk, "run", "pod.sock") }
func (m *aMachine) workspace() string { return filepath.Join(m.disk, "workspace") }

// start starts pod-daemon as the first process of new namespaces.
func (m *aMachine) start() {
	m.t.Helper()
	m.startIn(syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET)
}

// startOnHostNetwork starts pod-daemon in the host's network namespace, where
// the test can connect to it over TCP.
func (m *aMachine) startOnHostNetwork() {
	m.t.Helper()
	m.startIn(syscall.CLONE_NEWPID | syscall.CLONE_NEWNS)
}

func (m *aMachine) startIn(namespaces uintptr) {
	m.t.Helper()
	// As in a machine, only pod-daemon uses these folders, and they are empty.
	script := `mount --make-rprivate / && mount -t proc proc /proc && ` +
		`for d in /tmp/aloft /tmp/.X11-unix /run/dbus; do mkdir -p $d && mount -t tmpfs -o mode=1777 tmpfs $d || exit 1; done && `
	if m.tmp != "" {
		script += `mount -t tmpfs -o ` + m.tmp + ` tmpfs ` + m.workspace() + ` && `
	}
	m.run(exec.Command("sh", append([]string{"-c", script + `exec "$@"`, "sh"}, m.args()...)...),
		&syscall.SysProcAttr{Cloneflags: namespaces})
}

func (m *aMachine) args(more ...string) []string {
	bin, err := binaries()
	if err != nil {
		m.t.Fatal(err)
	}
	return append([]string{filepath.Join(bin, "pod-daemon"),
		"--socket", m.socket(), "--user", "nobody",
		"--workspace", m.workspace(), "--exec-state", m.disk + "/exec",
		"--git-dir", m.disk + "/git", "--data", m.disk + "/data", "--git-config", m.disk + "/gitconfig",
		"--api-socket", m.disk + "/cursor/api.sock", "--artifacts", m.disk + "/artifacts", "--desktop-dir", m.disk + "/desktop", "--tmux-dir", m.disk + "/tmux"}, append(m.more, more...)...)
}

func (m *aMachine) run(cmd *exec.Cmd, attr *syscall.SysProcAttr) {
	m.t.Helper()
	cmd.SysProcAttr = attr
	cmd.Stdout, cmd.Stderr = &m.log, &m.log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	done := make(chan struct{})
	m.cmd, m.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // tests that need the process's state read it themselves
	}()
}

// kill simulates a power failure.
func (m *aMachine) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	<-m.done
	if m.t.Failed() {
		m.t.Logf("pod-daemon said:\n%s", m.log.String())
	}
	m.cmd = nil
}

// The following methods implement the part of machine.Machine that Dial needs.
func (m *aMachine) ID() string                    { return "m-test" }
func (m *aMachine) Wait(context.Context) error    { return nil }
func (m *aMachine) Restart(context.Context) error { return nil }
func (m *aMachine) Destroy(context.Context) error { return nil }

func (m *aMachine) Dial(ctx context.Context) (net.Conn, error) {
	var conn net.Conn
	err := eventually(ctx, func() (err error) {
		conn, err = net.Dial("unix", m.socket())
		return err
	})
	return conn, err
}

// eventually repeats try until it succeeds or ctx ends.
func eventually(ctx context.Context, try func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; at last: %w", context.Cause(ctx), err)
		}
	}
}

// until fails the test unless try succeeds before a timeout. what describes the
// condition in the error.
func until(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := eventually(ctx, try); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (m *aMachine) dial(git http.Handler) *pod.Conn {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	c, err := pod.Dial(ctx, m, git)
	if err != nil {
		m.t.Fatalf("dial: %v\n%s", err, m.log.String())
	}
	m.t.Cleanup(func() { _ = c.Close() })
	return c
}

// boot boots the machine, and returns the result and the final messages of the
// steps.
func (m *aMachine) boot(c *pod.Conn, co pod.Checkout) (pod.Ready, map[string]pod.Step, error) {
	m.t.Helper()
	steps := make(map[string]pod.Step)
	if co.RepoURL == "" {
		co.RepoURL = repoURL
	}
	co.Path = m.workspace()
	ready, err := c.Boot(m.t.Context(), pod.Boot{
		Checkout: co, ExecToken: token, GitCredential: "cred-of-the-run",
		Env: map[string]string{"GIVEN": "by boot"},
	}, func(s pod.Step) { steps[s.Name] = s })
	return ready, steps, err
}

func (m *aMachine) mustBoot(c *pod.Conn, co pod.Checkout) pod.Ready {
	m.t.Helper()
	ready, _, err := m.boot(c, co)
	if err != nil {
		m.t.Fatalf("%v\n%s", err, m.log.String())
	}
	return ready
}

// shell is a stream to the stand-in for exec-daemon.
type shell struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (m *aMachine) shell(c *pod.Conn) *shell {
	m.t.Helper()
	conn, err := c.OpenExec(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = conn.Close() })
	return &shell{m.t, conn, bufio.NewReader(conn)}
}

func (s *shell) run(command string) string {
	s.t.Helper()
	out, err := s.try(command)
	if err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	return out
}

func (s *shell) try(command string) (string, error) {
	if _, err := fmt.Fprintln(s.conn, command); err != nil {
		return "", err
	}
	line, err := s.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	return strconv.Unquote(strings.TrimSpace(line))
}

const repoURL = "https://git.example.com/o/r.git"

// forge is a git server behind a gateway that accepts one credential.
type forge struct {
	t    *testing.T
	root string
}

// newForge returns a forge with a repository of two commits, a branch and a
// tag.
func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{t, t.TempDir()}
	f.git("init", "-q", "--bare", "-b", "main", f.repo("r"))
	f.git("-C", f.repo("r"), "config", "http.receivepack", "true")
	f.git("init", "-q", "--bare", "-b", "main", f.repo("empty"))
	f.git("-C", f.repo("empty"), "config", "http.receivepack", "true")
	work := t.TempDir()
	f.git("init", "-q", "-b", "main", work)
	for i, name := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		f.git("-C", work, "add", "-A")
		f.git("-C", work, "commit", "-q", "-m", name)
		if i == 0 {
			f.git("-C", work, "tag", "v1")
			f.git("-C", work, "branch", "old")
		}
	}
	f.git("-C", work, "push", "-q", f.repo("r"), "--all")
	f.git("-C", work, "push", "-q", f.repo("r"), "--tags")
	return f
}

func (f *forge) repo(name string) string {
	return filepath.Join(f.root, "https", "git.example.com", "o", name+".git")
}

func (f *forge) git(args ...string) string {
	f.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %s: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (f *forge) tip(ref string) string { return f.git("-C", f.repo("r"), "rev-parse", ref) }

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Authorization") != "Bearer cred-of-the-run":
		http.Error(w, "this credential is not known", http.StatusForbidden)
	case strings.Contains(r.URL.Path, "/broken"):
		http.Error(w, "the forge does not answer", http.StatusBadGateway)
	case strings.Contains(r.URL.Path, "/missing"):
		http.Error(w, "no such repository", http.StatusNotFound)
	default:
		backend := cgi.Handler{
			Path: need.Command(f.t, "git"), Args: []string{"http-backend"},
			Env: []string{"GIT_PROJECT_ROOT=" + f.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x",
				"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"},
		}
		backend.ServeHTTP(w, r)
	}
}
