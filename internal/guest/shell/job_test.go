package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start starts a background command and ends it after the test.
func start(t testing.TB, s *Session, text string) Job {
	t.Helper()
	j, err := s.Start(context.WithoutCancel(t.Context()), Command{Text: text})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-j.PID, syscall.SIGKILL)
		if found, err := s.job(j.PID); err == nil {
			eventually(t, "its keeper has ended", func() bool { return !isRunning(found.keeper, found.keeperStart) })
		}
	})
	return j
}

// await waits for the pattern for up to 20 seconds.
func await(t testing.TB, s *Session, pattern string, pids ...int) Awaited {
	t.Helper()
	w := Wait{PIDs: pids, Timeout: 2 * time.Minute}
	if pattern != "" {
		w.Pattern = regexp.MustCompile(pattern)
	}
	all, late, err := s.Await(context.WithoutCancel(t.Context()), w)
	if err != nil || late || len(all) != 1 {
		t.Fatalf("await %q: %+v, late %v, %v", pattern, all, late, err)
	}
	return all[0]
}

func input(t testing.TB, s *Session, pid int, text string, closing bool) Written {
	t.Helper()
	w, err := s.Input(context.WithoutCancel(t.Context()), pid, text, closing)
	if err != nil {
		t.Fatalf("input %q: %v", text, err)
	}
	return w
}

func TestInputReachesABackgroundCommand(t *testing.T) {
	s := open(t)
	j := start(t, s, `while read -r line; do echo "got $line"; done; echo over; exit 3`)
	input(t, s, j.PID, "one\n", false)
	if a := await(t, s, `^got`, j.PID); a.Matched != "got one" || a.Output != "got one\n" || !a.Running {
		t.Errorf("%+v", a)
	}
	// The next Await continues where the previous one ended: output that it has returned does
	// not match again.
	input(t, s, j.PID, "two\nthree\n", false)
	if a := await(t, s, `^got`, j.PID); a.Matched != "got two" {
		t.Errorf("%+v", a)
	}
	if w := input(t, s, j.PID, "", true); !w.Closed {
		t.Errorf("%+v", w)
	}
	a := await(t, s, "", j.PID)
	if a.Running || !a.Known || a.ExitCode != 3 || !strings.HasPrefix(a.Output, "got three\nover\n") {
		t.Errorf("%+v", a)
	}
	if _, err := s.Input(t.Context(), j.PID, "more", false); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("after the end: %v", err)
	}
}

func TestAwaitSeesAPromptWithoutALineFeed(t *testing.T) {
	s := open(t)
	j := start(t, s, `printf 'name? '; read -r n; echo "hello $n"`)
	if a := await(t, s, `\? $`, j.PID); a.Matched != "name? " {
		t.Errorf("%+v", a)
	}
	input(t, s, j.PID, "you\n", false)
	if a := await(t, s, "", j.PID); a.ExitCode != 0 || !strings.Contains(a.Output, "hello you\n") || strings.Contains(a.Output, "name?") {
		t.Errorf("%+v", a)
	}
}

func TestControlCharactersActAsAtATerminal(t *testing.T) {
	s := open(t)
	// If a signal arrives just before bash waits for input, bash runs the trap only when the
	// wait ends, here after a second.
	j := start(t, s, `trap 'echo interrupted' INT; echo ready; while :; do if read -r -t 1 x; then echo "[$x]"; elif [ $? -le 128 ]; then break; fi; done; echo end`)
	await(t, s, "ready", j.PID)
	if w := input(t, s, j.PID, "a\n\x03", false); w.Bytes != 2 || len(w.Signals) != 1 || w.Signals[0] != "SIGINT" {
		t.Errorf("%+v", w)
	}
	await(t, s, "interrupted", j.PID)
	if w := input(t, s, j.PID, "\x04", false); !w.Closed {
		t.Errorf("%+v", w)
	}
	if a := await(t, s, "", j.PID); !strings.Contains(a.Output, "end\n") {
		t.Errorf("%+v", a)
	}
	j = start(t, s, "cat")
	input(t, s, j.PID, "up\n", false)
	await(t, s, "up", j.PID) // wait until cat runs, because bash ignores SIGQUIT
	input(t, s, j.PID, "\x1c", false)
	if a := await(t, s, "", j.PID); a.ExitCode != 128+3 {
		t.Errorf("after Ctrl-\\: %+v", a)
	}
}

func TestInputThatNobodyReads(t *testing.T) {
	s := open(t)
	j := start(t, s, "exec sleep 300")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user said so")
	go func() {
		eventually(t, "there is no more room", func() bool { return waiting(t, j.PID) >= 1<<12 })
		cancel(why)
	}()
	w, err := s.Input(ctx, j.PID, strings.Repeat("x", 1<<20), false)
	if !errors.Is(err, why) || w.Bytes < 1<<12 || w.Bytes > 1<<17 {
		t.Errorf("%+v, %v", w, err)
	}
	j = start(t, s, "exec <&-; echo closed; exec sleep 300")
	await(t, s, "closed", j.PID)
	if _, err := s.Input(t.Context(), j.PID, "x", false); err == nil || !strings.Contains(err.Error(), "closed its input") {
		t.Errorf("closed: %v", err)
	}
	if _, err := s.Input(t.Context(), 1, "x", false); err == nil {
		t.Error("process 1 took input")
	}
}

// waiting returns the number of unread bytes in the pipe that is a process's
// standard input.
func waiting(t testing.TB, pid int) int {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/0", pid), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Error(err)
		return 1 << 30
	}
	defer f.Close()
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ)
	if err != nil {
		t.Error(err)
		return 1 << 30
	}
	return n
}

func TestAwaitOfSeveral(t *testing.T) {
	s := open(t)
	slow := start(t, s, "read -r x; echo slow")
	quick := start(t, s, "echo quick; exit 2")
	pids := []int{slow.PID, quick.PID}
	all, late, err := s.Await(t.Context(), Wait{PIDs: pids, Any: true, Timeout: 2 * time.Minute})
	if err != nil || late || !all[0].Running || all[1].Running || all[1].ExitCode != 2 {
		t.Fatalf("%+v, %v, %v", all, late, err)
	}
	all, late, err = s.Await(t.Context(), Wait{PIDs: pids, Timeout: 50 * time.Millisecond})
	if err != nil || !late || !all[0].Running {
		t.Fatalf("%+v, %v, %v", all, late, err)
	}
	input(t, s, slow.PID, "\n", false)
	all, late, err = s.Await(t.Context(), Wait{PIDs: pids, Timeout: 2 * time.Minute})
	if err != nil || late || all[0].ExitCode != 0 || all[0].Running || !strings.HasPrefix(all[0].Output, "slow\n") {
		t.Fatalf("%+v, %v, %v", all, late, err)
	}
	if _, _, err := s.Await(t.Context(), Wait{Timeout: time.Second}); err == nil {
		t.Error("nothing runs, and it is waited for")
	}
}

func TestJobsTellsOfEachEndOnce(t *testing.T) {
	s := open(t)
	long := start(t, s, "exec sleep 300")
	short := start(t, s, "exit 7")
	eventually(t, "it has ended", func() bool { j, err := s.job(short.PID); return err == nil && !j.runs() })
	jobs := s.Jobs()
	if len(jobs) != 2 || !jobs[0].Running || jobs[0].PID != long.PID || jobs[1].Running || jobs[1].ExitCode != 7 || jobs[1].Command != "exit 7" {
		t.Errorf("%+v", jobs)
	}
	if jobs = s.Jobs(); len(jobs) != 1 {
		t.Errorf("the second time: %+v", jobs)
	}
	if a := await(t, s, "", short.PID); a.ExitCode != 7 || !a.Known {
		t.Errorf("afterwards: %+v", a)
	}
}

func TestExitCodeOfWhatIsKilled(t *testing.T) {
	s := open(t)
	j := start(t, s, "trap '' TERM; echo up; while :; do sleep 1; done")
	await(t, s, "up", j.PID)
	_ = syscall.Kill(-j.PID, syscall.SIGTERM) // the job ignores SIGTERM
	_ = syscall.Kill(-j.PID, syscall.SIGKILL)
	if a := await(t, s, "", j.PID); a.ExitCode != 137 || !a.Known {
		t.Errorf("%+v", a)
	}
	j = start(t, s, "exec sleep 300")
	found, err := s.job(j.PID)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(found.keeper, syscall.SIGKILL)
	_ = syscall.Kill(j.PID, syscall.SIGKILL)
	if a := await(t, s, "", j.PID); a.Running || a.Known {
		t.Errorf("its keeper was killed: %+v", a)
	}
}

func TestBackgroundCommandsAreFoundAgain(t *testing.T) {
	s := open(t)
	j := start(t, s, "echo up; exec sleep 300")
	await(t, s, "up", j.PID)
	// Restore the record, as if the process that started the job had died.
	record := strings.TrimSuffix(j.OutputFile, ".txt") + ".job"
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`"ownerStart":\d+`).ReplaceAll(text, []byte(`"ownerStart":1`))
	if err := os.WriteFile(record, text, 0o600); err != nil {
		t.Fatal(err)
	}
	next := open(t, func(c *Config) { c.OutputDir = s.cfg.OutputDir })
	if jobs := next.Jobs(); len(jobs) != 1 || jobs[0].PID != j.PID || !jobs[0].Running || jobs[0].Command != "echo up; exec sleep 300" {
		t.Fatalf("%+v", jobs)
	}
	if _, err := next.Input(t.Context(), j.PID, "x", false); err == nil || !strings.Contains(err.Error(), "restarted") {
		t.Errorf("%v", err)
	}
	_ = syscall.Kill(j.PID, syscall.SIGTERM)
	if a := await(t, next, "", j.PID); a.ExitCode != 143 {
		t.Errorf("%+v", a)
	}
}

// FuzzReadJob parses records that a command may have forged.
func FuzzReadJob(f *testing.F) {
	f.Add([]byte(`{"command":"x","pid":5,"pidStart":6,"keeper":7,"keeperStart":8,"owner":9,"ownerStart":10}`))
	f.Add([]byte(`{"pid":-1,"keeper":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), strings.Repeat("a", 24)+".job")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if j, ok := readJob(file); ok && (j.pid <= 1 || j.keeper <= 1 || j.output() != strings.TrimSuffix(file, ".job")+".txt") {
			t.Errorf("%+v", j)
		}
	})
}
