package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/need"
)

// serverPID returns the process of the server, which is a child of the host-daemon.
func (a *aloft) serverPID() int {
	a.t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", a.cmd.Process.Pid))
	if err != nil {
		a.t.Fatal(err)
	}
	// The child belongs to one of the threads.
	if len(children) == 0 {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", a.cmd.Process.Pid))
		if err != nil {
			a.t.Fatal(err)
		}
		for _, file := range threads {
			more, _ := os.ReadFile(file) // a thread may have ended
			children = append(children, more...)
		}
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

// TestServerHasNoRights checks that the server is an ordinary user without capabilities,
// and tries, as that user and in that process's view of the host, what whoever takes it
// over would try.
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
	// What shows that the attacks fail for their own reason.
	if out, err := a.asServer(pid, id[1], "cat "+a.Data+"/secret.key | wc -c; touch "+a.Data+"/new && rm "+a.Data+"/new"); err != nil || strings.TrimSpace(out) != "32" {
		t.Errorf("the server's own files: %q, %v", out, err)
	}
}

// asServer runs a shell command as the server's user, in its view of the host.
func (a *aloft) asServer(pid int, user, script string) (string, error) {
	nsenter := need.Command(a.t, "nsenter")
	cmd := exec.CommandContext(a.t.Context(), nsenter, "--target", strconv.Itoa(pid), "--mount", "--setuid", user, "--setgid", user, "sh", "-c", script)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestServerIsKilledAlone checks that the host-daemon ends when the server dies, so that
// the service manager starts both again, and that the next server goes on.
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
