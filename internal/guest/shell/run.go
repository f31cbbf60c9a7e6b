package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Emit receives output as it arrives, as valid UTF-8; either part may be empty.
// It is called by one goroutine at a time, at most once per deltaInterval.
type Emit func(stdout, stderr string)

// Run runs a command in the session, after earlier commands have ended. It
// returns when the command ends, though background processes that it started
// may still be running. When ctx ends, the command is killed, and the Result
// says so. An error means that the command did not run, or that its outcome is
// unknown. emit may be nil.
func (s *Session) Run(ctx context.Context, c Command, emit Emit) (Result, error) {
	if strings.ContainsRune(c.Text, 0) || strings.ContainsRune(c.Dir, 0) {
		return Result{}, errors.New("the command must not contain a zero byte")
	}
	if c.Threshold <= 0 {
		c.Threshold = DefaultThreshold
	}
	if err := s.take(ctx); err != nil {
		return Result{}, err
	}
	defer s.give()

	if err := s.ensure(ctx); err != nil {
		return Result{}, err
	}
	began := time.Now()
	call, err := s.begin(c.Threshold, emit)
	if err != nil {
		return Result{}, err
	}
	res, err := s.work(ctx, c, call)
	if err != nil {
		s.drop() // the state of bash is unknown
		call.abandon()
		return Result{}, err
	}
	call.finish(s, &res)
	res.Dir, res.Duration = s.cwd, time.Since(began)
	res.Restarted, s.lost = res.Restarted || s.lost, false
	return res, nil
}

// work sends the command to bash and waits for its end.
func (s *Session) work(ctx context.Context, c Command, call *call) (Result, error) {
	body := `\builtin . ` + quote(s.file("command"))
	if c.Inside != nil {
		var err error
		if body, err = s.insideBody(c, call.mark); err != nil {
			return Result{}, err
		}
		defer s.leaveInside(c.Inside.Key, call.mark)
	} else if err := os.WriteFile(s.file("command"), []byte(c.Text+"\n"), 0o600); err != nil {
		return Result{}, fmt.Errorf("shell: write the command to a file: %w", err)
	}
	if c.Dir != "" {
		body = `\builtin cd -- ` + quote(c.Dir) + " && " + body
	}
	body = fmt.Sprintf("{ %s; } </dev/null >%s 2>%s\n", body, quote(call.stdout.path), quote(call.stderr.path))
	if err := s.send(call.mark, body); err != nil {
		return Result{}, err
	}
	timer := time.NewTimer(c.Timeout)
	defer timer.Stop()
	for {
		select {
		case message := <-s.bash.ends:
			if message == call.mark {
				return s.reported()
			}
		case <-s.bash.done:
			return s.exitResult(), nil
		case <-timer.C:
			return s.abort(call, TimedOut), nil
		case <-ctx.Done():
			return s.abort(call, Cancelled), nil
		}
	}
}

// send makes bash run body, after setting the call's mark and before reporting its end.
// bash sources all of this from a file, because bash reads a pipe, such as its script,
// byte by byte. The backslash avoids aliases, and builtin avoids functions.
func (s *Session) send(mark, body string) error {
	var drive strings.Builder
	for _, line := range s.pending {
		drive.WriteString(line + "\n")
	}
	s.pending = nil
	fmt.Fprintf(&drive, "\\builtin export %s=%s\n%s", markVariable, mark, body)
	// Use three simple commands: the output of a DEBUG trap then goes to bash's
	// own output.
	state := quote(s.nextSave())
	fmt.Fprintf(&drive, "\\builtin printf '#%%d\\n' \"$?\" >|%s\n\\builtin declare -px >>%s\n", state, state)
	fmt.Fprintf(&drive, "\\builtin printf '%%s\\n' %s >%s\n", mark, quote(s.file("report")))
	if err := os.WriteFile(s.file("drive"), []byte(drive.String()), 0o600); err != nil {
		return fmt.Errorf("shell: write the command to a file: %w", err)
	}
	return s.bash.run(`\builtin . ` + quote(s.file("drive")) + "\n")
}

// reported returns the result of a command that did not end bash.
func (s *Session) reported() (Result, error) {
	code, err := s.status()
	if err != nil {
		return Result{}, fmt.Errorf("the shell did not report the command's result; a new shell is ready: %w", err)
	}
	if dir, ok := s.bash.cwd(); ok {
		s.cwd = dir
	}
	s.saved = s.nextSave()
	return Result{End: Finished, ExitCode: code, Signal: signalOf(code)}, nil
}

// nextSave returns the file for the state after the running command. Two files
// are used in turn, so that the previous one stays intact until the next is
// complete.
func (s *Session) nextSave() string {
	if s.saved == s.file("a.env") {
		return s.file("b.env")
	}
	return s.file("a.env")
}

// status reads the exit code that bash wrote before its variables.
func (s *Session) status() (int, error) {
	f, err := os.Open(s.nextSave())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var code int
	_, err = fmt.Fscanf(f, "#%d\n", &code)
	return code, err
}

// signalOf returns the name of the signal that an exit code stands for, or ""
// if it stands for none.
func signalOf(code int) string {
	if code <= 128 {
		return ""
	}
	return unix.SignalName(syscall.Signal(code - 128))
}

// exitResult returns the result of a command that ended bash.
func (s *Session) exitResult() Result {
	code := s.bash.state.ExitCode()
	if ws, ok := s.bash.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	if next := s.nextSave(); os.Rename(s.file("exit.env"), next) == nil {
		s.saved = next
	}
	s.cwd = s.exitDir()
	s.drop()
	return Result{End: Finished, ExitCode: code, Signal: signalOf(code), Restarted: true}
}

// abort kills the command and everything it started, including bash.
func (s *Session) abort(call *call, end End) Result {
	_ = syscall.Kill(s.bash.pid, syscall.SIGSTOP) // otherwise bash would run the command's next line
	if dir, ok := s.bash.cwd(); ok {
		s.cwd = dir
	}
	killCall(s.bash.pid, call.mark, call.before)
	s.drop()
	return Result{End: end, ExitCode: 128 + int(syscall.SIGKILL), Signal: "SIGKILL", Restarted: true}
}

// drop discards bash; the next command gets a new one.
func (s *Session) drop() {
	if s.bash != nil {
		s.bash.kill()
		s.bash = nil
	}
}

// exitDir returns bash's last folder, from the variables that its trap saved.
func (s *Session) exitDir() string {
	text, err := os.ReadFile(s.saved)
	if err != nil {
		return s.cwd
	}
	for line := range strings.Lines(string(text)) {
		if dir, ok := strings.CutPrefix(line, `declare -x PWD="`); ok {
			dir = strings.TrimSuffix(dir, "\"\n")
			if st, err := os.Stat(dir); err == nil && st.IsDir() {
				return dir
			}
		}
	}
	return s.cwd
}
