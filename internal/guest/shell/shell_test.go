package shell

import (
	"context"
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
)

// open returns a session in a new folder, with a home folder that has no
// profile.
func open(t testing.TB, change ...func(*Config)) *Session {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{
		Dir:       dir,
		Env:       []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8"},
		OutputDir: outputDir(t),
	}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// outputDir returns a folder that is removed at the end of the test, after the
// processes that store the output of killed commands have ended.
func outputDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "output-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eventually(t, "the output is removed", func() bool { return os.RemoveAll(dir) == nil }) })
	return dir
}

// run runs a command that must return a result.
func run(t testing.TB, s *Session, text string) Result {
	t.Helper()
	res, err := s.Run(context.WithoutCancel(t.Context()), Command{Text: text, Timeout: 2 * time.Minute}, nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return res
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		}
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := parseStat(string(stat))
	return state != "Z" && state != "X"
}

func TestRun(t *testing.T) {
	s := open(t)
	for _, c := range []struct {
		name, text     string
		code           int
		stdout, stderr string // the whole text, or a part if it begins with "…"
	}{
		{"TrueIsSilent", "true", 0, "", ""},
		{"OutputsAreApart", "echo out; echo err >&2", 0, "out\n", "err\n"},
		{"NoNewlineAtEnd", "printf abc", 0, "abc", ""},
		{"ExitStatus", "(exit 7)", 7, "", ""},
		{"ReturnEndsTheCommand", "echo a; return 4; echo b", 4, "a\n", ""},
		{"HereDocument", "cat <<X\none $((1+1))\nX", 0, "one 2\n", ""},
		{"HereDocumentWithoutEnd", "cat <<X\none", 0, "one\n", "…here-document"},
		{"UnbalancedQuote", `echo "abc`, 2, "", "…unexpected EOF"},
		{"UnbalancedBrace", "if true; then", 2, "", "…syntax error"},
		{"StdinIsEmpty", "cat; read x || echo none", 0, "none\n", ""},
		{"NotFound", "no-such-command-here", 127, "", "…command: line 1: no-such-command-here: command not found"},
		{"LooksLikeOurOwnWords", `echo "} >/dev/null"; echo '\builtin exit'; echo $'\''`, 0, "} >/dev/null\n\\builtin exit\n'\n", ""},
		{"ExecOfRedirectionIsUndone", "exec >/dev/null 2>&1; echo lost", 0, "", ""},
		{"AfterIt", "echo found", 0, "found\n", ""},
		{"BreakOutsideLoop", "break; continue; echo on", 0, "on\n", "…only meaningful"},
		{"InvalidUTF8", `printf 'a\xff\xfeb'`, 0, "a\uFFFDb", ""},
		{"Unicode", "echo 'žluťoučký 🐎'", 0, "žluťoučký 🐎\n", ""},
		{"Empty", "", 0, "", ""},
		{"CommentOnly", "# nothing", 0, "", ""},
		{"ContinuationAtEnd", `echo a \`, 0, "a\n", ""},
		{"ChildrenDoNotSeeOurPipes", "ls -l /proc/self/fd | grep -c aloft-shell", 0, "1\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := run(t, s, c.text)
			if res.ExitCode != c.code || res.End != Finished || res.Restarted {
				t.Errorf("exit code %d, end %d, restarted %v; want %d", res.ExitCode, res.End, res.Restarted, c.code)
			}
			for _, p := range []struct{ what, got, want string }{{"stdout", res.Stdout, c.stdout}, {"stderr", res.Stderr, c.stderr}} {
				if part, ok := strings.CutPrefix(p.want, "…"); ok && strings.Contains(p.got, part) {
					continue
				}
				if p.got != p.want {
					t.Errorf("%s %q, want %q", p.what, p.got, p.want)
				}
			}
		})
	}
}

func TestStatePersists(t *testing.T) {
	s := open(t)
	if err := os.Mkdir(filepath.Join(s.cfg.Dir, "sub dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	res := run(t, s, "cd 'sub dir'; x=1; export y=2; f() { echo f$x; }\nalias g='echo g'; shopt -s nullglob; arr=(a b)\ndeclare -A m=([k]=v)")
	if want := filepath.Join(s.cfg.Dir, "sub dir"); res.Dir != want {
		t.Errorf("folder %s, want %s", res.Dir, want)
	}
	res = run(t, s, `pwd; echo $x $y; f; g; echo *.none; echo ${arr[1]} ${m[k]}; env | grep ^y=`)
	want := filepath.Join(s.cfg.Dir, "sub dir") + "\n1 2\nf1\ng\n\nb v\ny=2\n"
	if res.Stdout != want {
		t.Errorf("got %q, want %q; stderr %q", res.Stdout, want, res.Stderr)
	}
}

func TestFunctionsAndAliasesOverOursDoNoHarm(t *testing.T) {
	s := open(t)
	run(t, s, "cd() { echo mine; }; printf() { :; }; export() { :; }; declare() { :; }; alias builtin=false '.'=false\nset -x -f; IFS=/; set -C; trap 'echo d' DEBUG; trap 'echo r' RETURN ERR")
	res := run(t, s, "trap - DEBUG RETURN ERR; set +x; echo a")
	if !strings.HasSuffix(res.Stdout, "a\n") || res.ExitCode != 0 {
		t.Errorf("got %+v", res)
	}
}

func TestSessionEnds(t *testing.T) {
	for _, c := range []struct {
		name, text string
		code       int
		signal     string
	}{
		{"Exit", "export kept=1; lost=1; mkdir -p d; cd d; exit 3", 3, ""},
		{"ExitZero", "export kept=1; mkdir -p d; cd d; exit", 0, ""},
		{"Exec", "export kept=1; mkdir -p d; cd d; true; exec sh -c 'echo from sh; exit 5'", 5, ""},
		{"ErrExit", "export kept=1; mkdir -p d; cd d; set -e; false; echo not reached", 1, ""},
		{"Unset", "export kept=1; mkdir -p d; cd d; set -u; echo $nothing; echo not reached", 1, ""},
		{"KilledBySignal", "export kept=1; mkdir -p d; cd d; kill -9 $$", 137, "SIGKILL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			run(t, s, "export before=1; mkdir -p d; cd d; cd ..")
			res := run(t, s, c.text)
			if strings.Contains(res.Stdout, "not reached") {
				t.Error("the command went on")
			}
			if res.ExitCode != c.code || res.Signal != c.signal || !res.Restarted {
				t.Errorf("got %+v", res)
			}
			res = run(t, s, "echo before=$before kept=$kept lost=$lost $PWD")
			gone := c.name == "Exec" || c.name == "KilledBySignal" // the trap does not run
			want := "before=1 kept=1 lost= " + s.cfg.Dir + "/d\n"
			if gone {
				want = "before=1 kept= lost= " + s.cfg.Dir + "\n"
			}
			if res.Stdout != want {
				t.Errorf("after: %q, want %q", res.Stdout, want)
			}
		})
	}
}

func TestAnAbortKillsTheTree(t *testing.T) {
	s := open(t)
	run(t, s, "export kept=yes; sleep 300 >/dev/null 2>&1 & echo $! >other")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := s.Run(ctx, Command{Timeout: 2 * time.Minute, Text: `
mkdir -p deep; cd deep
sleep 301 & echo $! >>../pids
(trap '' TERM; sleep 302; sleep 302) & echo $! >>../pids
setsid sleep 303 & echo $! >>../pids
( (setsid sleep 304 & echo $! >>../pids) & )
env -i /bin/sleep 305 & echo $! >>../pids
until [ "$(wc -l <../pids)" = 5 ]; do sleep 0.01; done
echo started
sleep 306
echo never >../never`}, func(string, string) { cancel() })
	if err != nil {
		t.Fatal(err)
	}
	if res.End != Cancelled || res.ExitCode == 0 || res.Stdout != "started\n" || !res.Restarted {
		t.Errorf("got %+v", res)
	}
	pids, err := os.ReadFile(filepath.Join(s.cfg.Dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(pids))); n != 5 {
		t.Errorf("%d process ids, want 5", n)
	}
	for _, f := range strings.Fields(string(pids)) {
		pid, _ := strconv.Atoi(f)
		eventually(t, "process "+f+" is gone", func() bool { return !alive(pid) })
	}
	if _, err := os.Stat(filepath.Join(s.cfg.Dir, "never")); err == nil {
		t.Error("the command went on after it was killed")
	}
	res = run(t, s, "echo $kept $PWD; kill -0 $(cat ../other) && kill $(cat ../other)")
	if res.Stdout != "yes "+s.cfg.Dir+"/deep\n" || res.ExitCode != 0 {
		t.Errorf("after: %+v; what an earlier call started should live", res)
	}
}

func TestTimeoutOfWhatBashItselfDoes(t *testing.T) {
	s := open(t)
	for _, text := range []string{"while :; do :; done", "trap '' TERM INT HUP; while :; do :; done", "set -n; echo", "kill -STOP $$"} {
		res, err := s.Run(t.Context(), Command{Text: text, Timeout: 100 * time.Millisecond}, nil)
		if err != nil || res.End != TimedOut {
			t.Errorf("%s: %+v, %v", text, res, err)
		}
	}
	if res := run(t, s, "echo on"); res.Stdout != "on\n" {
		t.Errorf("after: %+v", res)
	}
}

func TestCancel(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user said so")
	res, err := s.Run(ctx, Command{Text: "echo up; sleep 300", Timeout: time.Minute}, func(stdout, _ string) {
		if strings.Contains(stdout, "up") {
			cancel(why)
		}
	})
	if err != nil || res.End != Cancelled || res.Stdout != "up\n" {
		t.Errorf("got %+v, %v", res, err)
	}
	if _, err := s.Run(ctx, Command{Text: "true", Timeout: time.Minute}, nil); !errors.Is(err, why) {
		t.Errorf("a call with an ended context: %v, want its cause", err)
	}
}

func TestBackgroundProcessDoesNotHoldTheCall(t *testing.T) {
	s := open(t)
	res := run(t, s, "(while [ ! -e go ]; do sleep 0.01; done; echo late) & echo $!")
	if !res.Held || res.OutputFile == "" {
		t.Fatalf("got %+v", res)
	}
	run(t, s, "touch go")
	eventually(t, "late output is in the file", func() bool {
		text, _ := os.ReadFile(res.OutputFile)
		return strings.HasSuffix(string(text), "late\n")
	})
	res = run(t, s, "yes & echo $!")
	if !res.Held {
		t.Errorf("yes in the background: %+v", res)
	}
	run(t, s, "kill %?yes")
}

func TestStart(t *testing.T) {
	s := open(t)
	run(t, s, "f() { echo from f in $PWD; }; v=1; mkdir e")
	bg, err := s.Start(t.Context(), Command{Text: "f; echo err >&2; cd /; v=2; exit 6", Dir: filepath.Join(s.cfg.Dir, "e")})
	if err != nil {
		t.Fatal(err)
	}
	want := "from f in " + s.cfg.Dir + "/e\nerr\n\n[ended with exit code 6]\n"
	eventually(t, "the output is there", func() bool {
		text, _ := os.ReadFile(bg.OutputFile)
		return string(text) == want
	})
	if res := run(t, s, "echo $v $PWD; wait"); res.Stdout != "1 "+s.cfg.Dir+"\n" {
		t.Errorf("the session changed: %+v", res)
	}
	bg, err = s.Start(t.Context(), Command{Text: "sleep 300"})
	if err != nil {
		t.Fatal(err)
	}
	if res := run(t, s, "wait; echo done"); res.Stdout != "done\n" {
		t.Errorf("wait: %+v", res)
	}
	if _, err := s.Run(t.Context(), Command{Text: "sleep 300", Timeout: 50 * time.Millisecond}, nil); err != nil {
		t.Fatal(err)
	}
	if !alive(bg.PID) {
		t.Error("the timeout of another call killed it")
	}
	run(t, s, "pkill -P "+strconv.Itoa(bg.PID)+"; kill "+strconv.Itoa(bg.PID))
	eventually(t, "it is gone", func() bool { return !alive(bg.PID) })
}

func TestStartBoundsItsFile(t *testing.T) {
	s := open(t, func(c *Config) { c.MaxOutput = 1 << 20 })
	bg, err := s.Start(t.Context(), Command{Text: "exec yes"})
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(bg.PID, syscall.SIGKILL)
	var most int64
	eventually(t, "the file was emptied", func() bool {
		st, err := os.Stat(bg.OutputFile)
		if err != nil {
			t.Fatal(err)
		}
		shrank := st.Size() < most
		most = max(most, st.Size())
		return shrank
	})
}

func TestCommandsWaitForOneAnother(t *testing.T) {
	s := open(t)
	run(t, s, "n=0")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { run(t, s, "m=$n; echo x; n=$((m+1))") })
	}
	wg.Wait()
	if res := run(t, s, "echo $n"); res.Stdout != "20\n" {
		t.Errorf("got %q", res.Stdout)
	}
}

func TestLoginProfileIsReadOnce(t *testing.T) {
	s := open(t, func(c *Config) {
		if err := os.WriteFile(filepath.Join(c.Dir, ".profile"), []byte("echo read >>~/log; export fromProfile=1; echo noise; cat\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	run(t, s, "true")
	if res := run(t, s, "echo $fromProfile; cat ~/log"); res.Stdout != "1\nread\n" {
		t.Errorf("got %q", res.Stdout)
	}
}

func TestBashKilledBetweenCommands(t *testing.T) {
	s := open(t)
	run(t, s, "export kept=1; lost=1")
	b := s.bash
	if err := syscall.Kill(b.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-b.done
	if res := run(t, s, "echo $kept $lost"); res.Stdout != "1\n" || !res.Restarted {
		t.Errorf("got %+v", res)
	}
	if res := run(t, s, "true"); res.Restarted {
		t.Error("it is told twice")
	}
}

func TestLoginProfileThatFails(t *testing.T) {
	for name, profile := range map[string]string{"Exits": "exit 3", "Execs": "exec true", "IsNoBash": "if then fi ((", "Kills": "kill -9 $$"} {
		t.Run(name, func(t *testing.T) {
			s := open(t, func(c *Config) {
				if err := os.WriteFile(filepath.Join(c.Dir, ".profile"), []byte(profile+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			})
			if res := run(t, s, "echo on"); res.Stdout != "on\n" {
				t.Errorf("got %+v", res)
			}
		})
	}
}

func TestLoginProfileTakesNoTimeOfTheCommand(t *testing.T) {
	began := time.Now()
	s := open(t, func(c *Config) {
		profile := "date +%s%N >> times; sleep 0.5; date +%s%N >> times\n"
		if err := os.WriteFile(filepath.Join(c.Dir, ".profile"), []byte(profile), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	res, err := s.Run(t.Context(), Command{Text: "echo on", Timeout: 2 * time.Minute}, nil)
	took := time.Since(began)
	if err != nil || res.Stdout != "on\n" {
		t.Errorf("got %+v, %v", res, err)
	}
	var first, last int64
	text, err := os.ReadFile(filepath.Join(s.cfg.Dir, "times"))
	if err == nil {
		_, err = fmt.Sscan(string(text), &first, &last)
	}
	if profile := time.Duration(last - first); err != nil || profile < time.Second/2 || profile+res.Duration > took {
		t.Errorf("the profile took %v, the command %v, all %v; %v", profile, res.Duration, took, err)
	}
}

func TestSetenv(t *testing.T) {
	s := open(t)
	run(t, s, "export gone=1")
	if err := s.Setenv(t.Context(), map[string]string{"a": "it's $HOME `x`\n\\", "b": ""}, []string{"gone", "never"}); err != nil {
		t.Fatal(err)
	}
	if res := run(t, s, `sh -c 'printf "%s|%s|%s" "$a" "${b-unset}" "${gone-unset}"'`); res.Stdout != "it's $HOME `x`\n\\||unset" {
		t.Errorf("got %q, stderr %q", res.Stdout, res.Stderr)
	}
	for _, bad := range []string{"", "1a", "a b", "a;b", "a\n"} {
		if err := s.Setenv(t.Context(), map[string]string{bad: "x"}, nil); err == nil {
			t.Errorf("%q was accepted as a name", bad)
		}
		if err := s.Setenv(t.Context(), nil, []string{bad}); err == nil {
			t.Errorf("%q was accepted as a name to unset", bad)
		}
	}
}

func TestDir(t *testing.T) {
	s := open(t)
	odd := filepath.Join(s.cfg.Dir, "it's $(odd)\n")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(t.Context(), Command{Text: "pwd", Dir: odd, Timeout: time.Minute}, nil)
	if err != nil || res.Stdout != odd+"\n" || res.Dir != odd {
		t.Errorf("got %+v, %v", res, err)
	}
	res, err = s.Run(t.Context(), Command{Text: "echo ran", Dir: odd + "/none", Timeout: time.Minute}, nil)
	if err != nil || res.ExitCode != 1 || res.Stdout != "" || !strings.Contains(res.Stderr, "No such file") {
		t.Errorf("got %+v, %v", res, err)
	}
	if err := os.Remove(odd); err != nil {
		t.Fatal(err)
	}
	run(t, s, "exit")
	if res := run(t, s, "pwd"); res.Stdout != s.cfg.Dir+"\n" {
		t.Errorf("a session whose folder is gone: %+v", res)
	}
}

func TestZeroByteIsRefused(t *testing.T) {
	s := open(t)
	if _, err := s.Run(t.Context(), Command{Text: "echo \x00", Timeout: time.Minute}, nil); err == nil {
		t.Error("Run accepted it")
	}
	if _, err := s.Start(t.Context(), Command{Text: "echo", Dir: "/\x00"}); err == nil {
		t.Error("Start accepted it")
	}
}

func TestClose(t *testing.T) {
	s := open(t)
	pid := s.bash.pid
	run(t, s, "sleep 300 & echo $! >pid")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if alive(pid) {
		t.Error("bash lives on")
	}
	if _, err := s.Run(t.Context(), Command{Text: "true", Timeout: time.Second}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	text, _ := os.ReadFile(filepath.Join(s.cfg.Dir, "pid"))
	left, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(left, syscall.SIGKILL)
}

func TestNewExplainsItself(t *testing.T) {
	for _, cfg := range []Config{
		{Dir: "relative", OutputDir: t.TempDir()},
		{Dir: t.TempDir(), OutputDir: "/dev/null/x"},
		{Dir: t.TempDir(), OutputDir: t.TempDir(), Bash: "/no/bash"},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func BenchmarkTrue(b *testing.B) {
	s := open(b)
	run(b, s, "true")
	for b.Loop() {
		run(b, s, "true")
	}
}

func BenchmarkBinTrue(b *testing.B) {
	s := open(b)
	run(b, s, "true")
	for b.Loop() {
		run(b, s, "/bin/true")
	}
}

func BenchmarkForkExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
