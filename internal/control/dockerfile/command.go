package dockerfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopTime is how long an engine may take to stop before it is killed.
const stopTime = 10 * time.Second

// maxLine is the maximum length in bytes of a line of output; longer lines are
// split.
const maxLine = 64 << 10

// Run runs an engine's command and passes each line of its output to out. When
// ctx ends or this process dies, the command's process group gets the signal
// stop, and SIGKILL ten seconds later.
func Run(ctx context.Context, cmd *exec.Cmd, stop syscall.Signal, out func(line string)) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: stop}
	lines := &lineWriter{out: out}
	cmd.Stdout, cmd.Stderr = lines, lines
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		group := -cmd.Process.Pid
		select {
		case <-ended:
			return
		case <-ctx.Done():
			_ = syscall.Kill(group, stop) // the process may already have ended
		}
		select {
		case <-ended:
		case <-time.After(stopTime):
		}
		_ = syscall.Kill(group, syscall.SIGKILL)
	})
	err := cmd.Wait()
	close(ended)
	watch.Wait()
	lines.flush()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// A lineWriter splits its input into lines.
type lineWriter struct {
	mu   sync.Mutex
	out  func(string)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 && len(w.rest) < maxLine {
			return len(p), nil
		}
		if i < 0 || i > maxLine {
			w.out(clean(w.rest[:maxLine]))
			w.rest = w.rest[maxLine:]
			continue
		}
		w.out(clean(w.rest[:i]))
		w.rest = w.rest[i+1:]
	}
}

func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.out(clean(w.rest))
		w.rest = nil
	}
}

// clean removes the carriage returns of progress bars and keeps the last state.
func clean(line []byte) string {
	s := strings.TrimRight(string(line), "\r")
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Lines passes each line of r to out until r ends.
func Lines(r io.Reader, out func(line string)) error {
	w := &lineWriter{out: out}
	_, err := io.Copy(w, bufio.NewReader(r))
	w.flush()
	return err
}

// ExitStatus returns the exit status of a command, and false if err is not an
// exit error.
func ExitStatus(err error) (status int, ok bool) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || !exit.Exited() {
		return 0, false
	}
	return exit.ExitCode(), true
}
