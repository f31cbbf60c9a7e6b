package shell

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// fatal is the common interface of a test, a fuzz test and a rapid check.
type fatal interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// traced runs a line under ptrace and returns the programs that it would have
// run, except ok and programs that only run their arguments. It kills each such
// program before its first instruction.
func (p workDir) traced(t fatal, line string) []string {
	runtime.LockOSThread() // ptrace is bound to a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/bin/bash", "--norc", "--noprofile", "-c", line) // the tracer waits for it
	cmd.Dir = filepath.Join(p.dir, "work")
	cmd.Env = []string{"PATH=" + filepath.Join(p.dir, "bin"), "HOME=" + p.home(t), "x=$(evil)", "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	timer := time.AfterFunc(5*time.Second, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	defer timer.Stop()
	defer func() { _ = syscall.Kill(-pid, syscall.SIGKILL) }()
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		t.Fatalf("bash does not stop for its tracer: %v, %v", status, err)
	}
	options := unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		t.Fatal(err)
	}
	var ran []string
	for stopped := pid; ; {
		signal := 0
		if status.Stopped() {
			switch s := status.StopSignal(); {
			case s == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC:
				if program := p.program(stopped); program != "" {
					ran = append(ran, program)
					_ = syscall.Kill(stopped, syscall.SIGKILL)
				}
			case s != unix.SIGTRAP && s != unix.SIGSTOP:
				signal = int(s)
			}
			_ = unix.PtraceCont(stopped, signal) // an error means that the process was killed
		}
		var err error
		for {
			// Wait for children of this thread only, in any process group.
			if stopped, err = unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		if errors.Is(err, unix.ECHILD) {
			return ran
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// home returns a home folder in which every startup and exit file of a shell,
// and every program, is hostile.
func (p workDir) home(t fatal) string {
	dir := filepath.Join(p.dir, "home")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".profile", ".bash_profile", ".bash_login", ".bashrc", ".bash_logout", ".bash_aliases", ".inputrc", ".bash_history", "bin/ok", "bin/evil", "ok"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+filepath.Join(p.dir, "bin/evil")+" from "+name+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// program returns the program that a process has executed, or "" if the program
// is permitted.
func (p workDir) program(pid int) string {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	argv := strings.Split(string(bytes.TrimSuffix(args, []byte{0})), "\x00")
	if len(argv) > 1 && argv[1] == filepath.Join(p.dir, "bin", "ok") {
		return ""
	}
	for _, name := range real {
		if real, err := filepath.EvalSymlinks(filepath.Join(p.dir, "bin", name)); err == nil && real == exe && !ownScript(p, argv) {
			return ""
		}
	}
	return strings.Join(argv, " ")
}

// ownScript reports whether an interpreter runs one of the workDir's programs.
func ownScript(p workDir, argv []string) bool {
	return len(argv) > 1 && strings.HasPrefix(argv[1], filepath.Join(p.dir, "bin")+"/")
}

// TestTracedLines runs every allowed random line under ptrace. No program that
// is not on the list may start, by any path.
func TestTracedLines(t *testing.T) {
	place := newWorkDir(t)
	list := Compile([]string{"ok", "echo", "cat", "printf"})
	for _, line := range []string{"evil", "ok; /bin/true", "../bin/x", "ok | /usr/bin/env /usr/bin/id", "echo $(evil)", "env evil", "bash -c evil", "find . -exec evil {} +", "(evil &)", "bash -lc ok", "bash --rcfile ~/.bashrc -i -c ok", "BASH_ENV=~/.profile bash -c ok", ". ~/.profile", "~/bin/ok"} {
		if ran := place.traced(t, line); len(ran) == 0 {
			t.Errorf("the tracer does not see what %q runs: the test cannot fail", line)
		}
	}
	traced, each := 0, linesPerCheck/3
	if os.Getenv("ALOFT_TEST_SOAK") != "" { // set by make soak
		each *= 100
	}
	rapid.Check(t, func(t *rapid.T) {
		for range each {
			line := nearly(t)
			if !list.Judge(line).Allowed {
				continue
			}
			traced++
			if ran := place.traced(t, line); len(ran) > 0 {
				t.Fatalf("the line %q is allowed, and would have run %q", line, ran)
			}
		}
	})
	t.Logf("%d random lines were allowed and traced", traced)
}

// nearly draws an allowed line and inserts something forbidden.
func nearly(t *rapid.T) string {
	line := rapid.SampledFrom([]string{"ok", "ok -v", "echo x", "ok x *", "ok\nok", "ok\n evil"}).Draw(t, "command")
	for range rapid.IntRange(0, 4).Draw(t, "depth") {
		line = strings.ReplaceAll(rapid.SampledFrom([]string{
			"L; ok", "ok && L", "L | ok", "(L)", "{ L; }", "echo $(L)", "echo `L`", "echo \"$(L)\"", "if L; then L; fi", "for i in a b; do L; done", "L &", "! L", "bash -c 'L'", "bash -lc 'L'", "bash -ic 'L'", "cd; L", "cd && ./L", "HOME=x L",
			"env L", "timeout 1 L", "L <<E\nx\nE", "L <<'E'\n$(x)\nE", "ok <(L)", "L >/dev/null", "case x in x) L;; esac", "[[ x ]] && L", "time L", "L # evil", "while L; do break; done",
			"echo \"${y:-L}\"", "cat <<E\n${y:-L}\nE", "echo $(cat <<E\nL\nE\n)", "cat <<E\n\\\nL\nE", "x='L'", "nice -n 5 L", "timeout -s KILL 1 L", "echo L | xargs -I L cat L", "find . -exec L \\;",
		}).Draw(t, "around"), "L", line)
	}
	odd := rapid.SampledFrom(append([]string{"/bin/true", "../bin/x", "exec ", "sudo ", "nohup ", "builtin ", "eval ", ". ", "trap ", "evil ", "~/bin/", "~/.profile", "$HOME/", "BASH_ENV=~/.bashrc ", "ENV=~/.profile ", "--rcfile ~/.bashrc ", "-l "}, pieces...))
	for range rapid.IntRange(0, 2).Draw(t, "odd ones") {
		at := rapid.IntRange(0, len(line)).Draw(t, "at")
		line = line[:at] + odd.Draw(t, "odd") + line[at:]
	}
	return line
}

// FuzzTraced checks the same as [TestTracedLines], for lines generated by a
// fuzzer.
func FuzzTraced(f *testing.F) {
	for _, s := range []string{"ok", "echo x | ok", "bash -c 'ok; echo x'", "find . -exec ok {} +", "ok <<E\n$(ok)\nE", "timeout 1 env ok", "for i in a b; do ok $i; done"} {
		f.Add(s)
	}
	for _, s := range []string{"bash -lc ok", "bash -l -c 'ok'", "bash -ic ok", "bash --login -c ok", "BASH_ENV=~/.bashrc bash -c ok", "env BASH_ENV=~/.bashrc bash -c ok", "cd && ok", "cd ~/bin; ./ok", "~/bin/ok", "sh -c ok", "env -i bash -lc ok"} {
		f.Add(s)
	}
	f.Add("ok #\\\n evil")
	f.Add("echo \"$\\\n(evil)\"")
	place := newWorkDir(f)
	list := Compile([]string{"ok", "echo", "cat", "printf"})
	f.Fuzz(func(t *testing.T, line string) {
		if !list.Judge(line).Allowed {
			return
		}
		if ran := place.traced(t, line); len(ran) > 0 {
			t.Errorf("the line %q is allowed, and would have run %q", line, ran)
		}
	})
}
