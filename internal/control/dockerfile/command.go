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

// stopTime is how long an engine may take to end what it runs.
const stopTime = 10 * time.Second

// maxLine is the longest line that is handed on whole, in bytes.
const maxLine = 64 << 10

// Run runs an engine's command and hands on what it says line by line. When ctx
// ends, or this process does, its process group gets the signal, and is killed
// if it has not ended ten seconds after that.
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
			_ = syscall.Kill(group, stop) // it may have ended meanwhile
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

// A lineWriter parts what is written into lines.
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

// clean takes the carriage returns of progress bars away: the last state stays.
func clean(line []byte) string {
	s := strings.TrimRight(string(line), "\r")
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Lines hands on what a reader gives, line by line, until it ends.
func Lines(r io.Reader, out func(line string)) error {
	w := &lineWriter{out: out}
	_, err := io.Copy(w, bufio.NewReader(r))
	w.flush()
	return err
}

// ExitStatus is the status that a command ended with, and whether it did.
func ExitStatus(err error) (status int, ok bool) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || !exit.Exited() {
		return 0, false
	}
	return exit.ExitCode(), true
}
