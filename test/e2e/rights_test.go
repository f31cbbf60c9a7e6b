package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// serverPID returns the id of the server process, which is a child of the
// host-daemon.
func (a *aloft) serverPID() int {
	a.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", a.cmd.Process.Pid))
	if err != nil {
		a.t.Fatal(err)
	}
	var children []byte
	for _, file := range threads { // each thread has its own list of children
		more, _ := os.ReadFile(file) // a thread may have ended
		children = append(children, more...)
	}
	for field := range strings.FieldsSeq(string(children)) {
		args, _ := os.ReadFile("/proc/" + field + "/cmdline") // a process may have ended
		if strings.Contains(string(args), "\x00serve\x00") {
			pid, err := strconv.Atoi(field)
			if err != nil {
				a.t.Fatal(err)
			}
			return pid
		}
	}
	a.t.Fatal("the server has no process")
	return 0
}

// TestServerHasNoRights checks that the server runs as an ordinary user without
// capabilities. As that user, in the server's mount namespace, it makes the attacks that
// an intruder in the server would make.
func TestServerHasNoRights(t *testing.T) {
	a := start(t, scripted(t, "scripts:\n  - turns: [{text: Done.}]\n"))
	pid := a.serverPID()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`CapEff:\s0+\n`, `CapPrm:\s0+\n`, `CapInh:\s0+\n`, `CapAmb:\s0+\n`, `NoNewPrivs:\s1\n`, `Groups:\s*\n`} {
		if !regexp.MustCompile(want).Match(status) {
			t.Errorf("%s is not in:\n%s", want, status)
		}
	}
	id := regexp.MustCompile(`Uid:\s(\d+)\s(\d+)\s(\d+)\s`).FindStringSubmatch(string(status))
	if id == nil || id[1] == "0" || id[1] != id[2] || id[2] != id[3] {
		t.Fatalf("its user is %v", id)
	}
	for name, script := range map[string]string{
		"Shadow":      "cat /etc/shadow",
		"Machines":    "ls " + a.Data + "/machines",
		"Replace":     "mv " + a.Data + "/machines " + a.Data + "/old",
		"Connections": "ln -s /etc " + a.Data + "/connections/bc-1",
		"Programs":    "touch " + a.Data + "/bin/runc",
		"Remove":      "rm -rf " + a.Data + "/build",
		"Config":      "cat " + a.config,
		"Trace":       "cat /proc/" + strconv.Itoa(a.cmd.Process.Pid) + "/environ",
		"Signal":      "kill -0 " + strconv.Itoa(a.cmd.Process.Pid),
	} {
		if out, err := a.asServer(pid, id[1], script); err == nil {
			t.Errorf("%s: it worked: %s", name, out)
		}
	}
	// The user can access the server's own files, so the attacks do not fail
	// merely because nothing works.
	if out, err := a.asServer(pid, id[1], "cat "+a.Data+"/secret.key | wc -c; touch "+a.Data+"/new && rm "+a.Data+"/new"); err != nil || strings.TrimSpace(out) != "32" {
		t.Errorf("the server's own files: %q, %v", out, err)
	}
}

// asServer runs a shell command as the server's user, in the server's mount
// namespace.
func (a *aloft) asServer(pid int, user, script string) (string, error) {
	nsenter := need.Command(a.t, "nsenter")
	cmd := exec.CommandContext(a.t.Context(), nsenter, "--target", strconv.Itoa(pid), "--mount", "--setuid", user, "--setgid", user, "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestServerIsKilledAlone checks that the host-daemon ends when the server dies, so that
// the service manager restarts both, and that the next server works.
func TestServerIsKilledAlone(t *testing.T) {
	a := start(t, scripted(t, "scripts:\n  - turns: [{text: Done.}]\n"))
	if err := syscall.Kill(a.serverPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-a.died
	if code := a.cmd.ProcessState.ExitCode(); code == 0 {
		t.Error("it ended as if nothing had happened")
	}
	a.Start()
}

// TestTwoServices runs server and host-daemon as two services of a service manager. The
// server must continue after its host-daemon was killed and restarted.
func TestTwoServices(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("", "aloft-services-") // the server's user can enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "hello\n"})
	if err := os.WriteFile(filepath.Join(dir, "script.yaml"), []byte(`scripts:
  - match: first
    turns: [{calls: [{tool: Shell, args: {command: echo one >one}}]}, {text: Done.}]
  - turns: [{calls: [{tool: Shell, args: {command: cat one; echo two >two}}]}, {text: Done.}]
`), 0o644); err != nil {
		t.Fatal(err)
	}
	const config = "models: [{id: scripted, provider: scripted, script: script.yaml}]\noutbound: {open: [127.0.0.1/32]}\n"
	a := &aloft{t: t, Data: filepath.Join(dir, "data"), config: filepath.Join(dir, "aloft.yaml")}
	if err := os.WriteFile(a.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.ParseUint(nobody.Uid, 10, 32) // as the C library wrote it
	gid, _ := strconv.ParseUint(nobody.Gid, 10, 32)
	a.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	socket := filepath.Join(dir, "host-daemon.sock")
	a.env = []string{"ALOFT_HOST_DAEMON=" + socket}
	daemon := func() *exec.Cmd {
		t.Helper()
		notified, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify.sock"), Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer notified.Close()
		cmd := exec.Command(binary(t), "host-daemon", "--config", a.config, "--data", a.Data, "--user", "nobody", "--socket", socket)
		cmd.Stderr = t.Output()
		cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notified.LocalAddr().String())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ready := make([]byte, 100)
		if err := notified.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := notified.Read(ready)
		if err != nil || string(ready[:n]) != "READY=1" {
			t.Fatalf("the host-daemon said %q, %v", ready[:n], err)
		}
		if err := os.Remove(filepath.Join(dir, "notify.sock")); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	running := daemon()
	t.Cleanup(func() {
		if err := running.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := running.Wait(); err != nil {
			t.Errorf("the host-daemon ended with %v", err)
		}
	})
	a.Start()
	t.Cleanup(a.cleanUp) // before the host-daemon ends
	r := a.create(url, "first", nil)
	a.finish(r)
	if err := running.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = running.Wait() // killed
	running = daemon()
	r = a.followUp(r, "second")
	r = a.finish(r)
	if text := gittest.Git(t, git.Path("r"), "show", pushed(t, r)+":two"); text != "two" {
		t.Errorf("the branch has %q", text)
	}
}
