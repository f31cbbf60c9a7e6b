package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"aloft/internal/guest/sandbox"
	"aloft/internal/need"
)

// TestRaces swaps symbolic links and folders 10,000 times while it writes
// through them. No protected file may change.
func TestRaces(t *testing.T) {
	requireAll(t)
	uid := os.Geteuid()
	if uid == 0 {
		uid = 1000
	}
	s := newScene(t, uid)
	e := escape{name: "race", attempt: "$P race .git/config 10000"}
	at := newSite(t, s.base, uid)
	before := at.state(t)
	code, said := s.try(t, at, e, "{}", true)
	if code == 0 || !strings.Contains(said, "nothing was written") {
		t.Errorf("exit %d: %s", code, said)
	}
	if after := at.state(t); after != before {
		t.Errorf("changed:\n%swas:\n%s", after, before)
	}
	if code, said := s.try(t, newSite(t, s.base, uid), e, "", false); code != 0 {
		t.Errorf("would not have worked without the sandbox: %s", said)
	}
}

// TestManyAtOnce runs concurrent sandboxes that share placeholders. No sandbox
// may remove a placeholder that another one uses.
func TestManyAtOnce(t *testing.T) {
	requireAll(t)
	n := 60
	if os.Getenv("ALOFT_TEST_SOAK") != "" {
		n = 10_000
	}
	s := newScene(t, os.Geteuid())
	at := newSite(t, s.base, os.Geteuid())
	policy := filepath.Join(at.dir, "policy.json")
	if err := os.WriteFile(policy, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := at.state(t)
	var all sync.WaitGroup
	slots := make(chan bool, 8)
	for range n {
		slots <- true
		all.Go(func() {
			defer func() { <-slots }()
			cmd := s.command(t.Context(), at.uid, "sandbox", s.program, "--policy", policy, "--workspace", at.workspace, "--",
				"sh", "-c", "for i in 1 2 3 4 5; do mkdir -p .vscode .aloft 2>/dev/null; echo x > .vscode/tasks.json && exit 42; echo x > .aloft/sandbox.json && exit 43; done; exit 7")
			cmd.Dir = at.workspace
			out, _ := cmd.CombinedOutput() // the exit code is checked
			if code := cmd.ProcessState.ExitCode(); code != 7 {
				t.Errorf("exit %d: %s", code, out)
			}
		})
	}
	all.Wait()
	if after := at.state(t); after != before {
		t.Errorf("changed:\n%swas:\n%s", after, before)
	}
}

// TestOthersInTmp runs commands while sockets, and folders with sockets, are
// created and removed in the folder for temporary files. The commands must not
// fail.
func TestOthersInTmp(t *testing.T) {
	requireAll(t)
	s := newScene(t, os.Geteuid())
	at := newSite(t, s.base, os.Geteuid())
	stop := make(chan bool)
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				dir, err := os.MkdirTemp("", "aloft-others-")
				if err != nil {
					t.Error(err)
					return
				}
				l, err := net.Listen("unix", filepath.Join(dir, "s"))
				if err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
				if err := errors.Join(l.Close(), os.RemoveAll(dir)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 60 {
		cmd := s.command(t.Context(), at.uid, "sandbox", s.program, "--workspace", at.workspace, "--", "true")
		cmd.Dir = at.workspace
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	close(stop)
	others.Wait()
}

// TestWhatIsLeftRunning leaves a process behind. Files must stay protected from
// that process, and the placeholders must be removed when it has ended.
func TestWhatIsLeftRunning(t *testing.T) {
	requireAll(t)
	s := newScene(t, os.Geteuid())
	at := newSite(t, s.base, os.Geteuid())
	before := at.state(t)
	policy := filepath.Join(at.dir, "policy.json")
	if err := os.WriteFile(policy, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	release, err := os.OpenFile(filepath.Join(at.workspace, "go"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_ = release.Close()
	_ = os.Remove(release.Name())
	cmd := s.command(t.Context(), at.uid, "sandbox", s.program, "--policy", policy, "--workspace", at.workspace, "--", "sh", "-c",
		"mkfifo go; { read x < go; mkdir -p .vscode; echo x > .vscode/tasks.json && echo ESCAPED > result || echo held > result; } >/dev/null 2>&1 & echo left")
	cmd.Dir = at.workspace
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "left\n" {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.OpenFile(filepath.Join(at.workspace, "go"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("x\n"); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	eventually(t, func() error {
		text, err := os.ReadFile(filepath.Join(at.workspace, "result"))
		if err != nil || string(text) != "held\n" {
			return fmt.Errorf("%q, %w", text, errors.Join(err))
		}
		if after := at.state(t); after != before {
			return fmt.Errorf("changed:\n%swas:\n%s", after, before)
		}
		return nil
	})
}

// eventually repeats ask until it returns no error. It fails the test after ten
// seconds.
func eventually(t *testing.T, ask func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for range 200 {
		if last = ask(); last == nil {
			return
		}
		<-tick.C
	}
	t.Error(last)
}

// TestExit checks the program's exit codes and messages.
func TestExit(t *testing.T) {
	requireAll(t)
	s := newScene(t, os.Geteuid())
	file := filepath.Join(s.base, "file")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"--", "sh", "-c", "kill -TERM $$"}, 143, ""},
		{[]string{"--", "no-such-command"}, sandbox.ExitNotFound, "no-such-command"},
		{[]string{"--", file}, sandbox.ExitCannot, "permission denied"},
		{[]string{"--policy", file, "--", "true"}, sandbox.ExitFailed, "not valid JSON"},
		{[]string{"--policy", "/no/such/file", "--", "true"}, sandbox.ExitFailed, "no such file"},
		{[]string{"--workspace", "/no/such/folder", "--", "true"}, sandbox.ExitFailed, "no such file"},
		{[]string{"true"}, sandbox.ExitFailed, "put it after --"},
		{[]string{}, sandbox.ExitFailed, "no command given"},
		{[]string{"--workspace"}, sandbox.ExitFailed, "needs a value"},
		{[]string{"--network-mode", "x", "--", "true"}, sandbox.ExitFailed, "sandbox_json_and_defaults"},
		{[]string{"--rwx", "/", "--", "true"}, sandbox.ExitFailed, `unknown argument "--rwx"`},
		{[]string{"--help"}, 0, "examples:"},
		{[]string{"probe"}, 0, "fully_enforced"},
		{[]string{"explain"}, 0, "namespaces:"},
		{[]string{"explain", "w:/etc/x", "r:/etc/x", "w:.git/config", "npmjs.org"}, 0, "no   w:.git/config  (protected .git/config)"},
	} {
		cmd := s.command(t.Context(), os.Geteuid(), "sandbox", append([]string{s.program}, tt.args...)...)
		cmd.Dir = newSite(t, s.base, os.Geteuid()).workspace
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		_ = cmd.Run() // the exit code is checked below
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(said.String(), tt.says) {
			t.Errorf("sandbox %q: exit %d, %q; want %d with %q", tt.args, code, said.String(), tt.code, tt.says)
		}
	}
}

// TestSignals checks that a command does not ignore the signals that the
// sandbox itself ignores.
func TestSignals(t *testing.T) {
	requireAll(t)
	s := newScene(t, os.Geteuid())
	at := newSite(t, s.base, os.Geteuid())
	grep := []string{"grep", "SigIgn", "/proc/self/status"}
	bare, err := exec.CommandContext(t.Context(), grep[0], grep[1:]...).Output() // make's children inherit some ignored signals
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if code, said := s.try(t, at, escape{attempt: strings.Join(grep, " ")}, "{}", true); code != 0 || said != string(bare) {
			t.Fatalf("exit %d: %s; outside it is %s", code, said, bare)
		}
	}
}

// TestUnenforceable makes user namespaces unavailable. No command may run
// unless the caller accepts that, and the message must then say which
// restrictions are not enforced.
func TestUnenforceable(t *testing.T) {
	requireAll(t)
	need.Root(t)
	unshare := need.Command(t, "unshare")
	s := newScene(t, 1000)
	at := newSite(t, s.base, 1000)
	// A process cannot leave a user namespace in which it cannot create another
	// one.
	script := "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\""
	for _, tt := range []struct {
		flags []string
		code  int
		says  string
	}{
		{nil, sandbox.ExitUnenforceable, "protected paths in"},
		{[]string{"--best-effort"}, 0, "not enforced: protected paths"},
	} {
		args := append([]string{unshare, "-rm", "sh", "-c", script, "sh", s.program}, tt.flags...)
		cmd := s.command(t.Context(), 1000, "sandbox", append(args, "--workspace", at.workspace, "--", "true")...)
		cmd.Dir = at.workspace
		out, _ := cmd.CombinedOutput() // the exit code is checked
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.says) {
			t.Errorf("%q: exit %d: %s; want %d with %q", tt.flags, code, out, tt.code, tt.says)
		}
	}
}
