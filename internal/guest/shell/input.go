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

// inputTime is how long to wait for a background command to read its input.
const inputTime = 5 * time.Second

// controls maps the control characters that send a signal in a terminal to those
// signals.
var controls = map[byte]syscall.Signal{3: syscall.SIGINT, 0x1c: syscall.SIGQUIT, 0x1a: syscall.SIGTSTP}

// endOfInput is Ctrl-D.
const endOfInput = 4

// Written is the result of an Input.
type Written struct {
	Bytes   int      // written to the command's input
	Closed  bool     // the input has been closed
	Signals []string // names of the signals sent for control characters
}

// Input writes text to a background command's standard input, and closes it afterwards
// if closing is set. Control characters have the same effect as in a terminal: some send
// a signal to the command's process group, and Ctrl-D closes the input. On error,
// Written says how much was written before.
func (s *Session) Input(ctx context.Context, pid int, text string, closing bool) (Written, error) {
	j, err := s.job(pid)
	if err != nil {
		return Written{}, err
	}
	if !j.runs() {
		return Written{}, fmt.Errorf("the command with process id %d has ended; its output is in %s", pid, j.output())
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var w Written
	for text != "" {
		at := strings.IndexAny(text, "\x03\x04\x1a\x1c")
		if at < 0 {
			at = len(text)
		}
		n, err := j.write(ctx, text[:at])
		w.Bytes += n
		if err != nil {
			return w, fmt.Errorf("%w; %d bytes were written", err, w.Bytes)
		}
		if text = text[at:]; text == "" {
			break
		}
		if text[0] == endOfInput {
			j.closeInput()
		} else {
			name, err := j.signal(controls[text[0]])
			if err != nil {
				return w, err
			}
			w.Signals = append(w.Signals, name)
		}
		text = text[1:]
	}
	if closing {
		j.closeInput()
	}
	w.Closed = j.input == nil
	return w, nil
}

func (j *job) closeInput() {
	if j.input != nil {
		_ = j.input.Close()
		j.input = nil
	}
}

func (j *job) write(ctx context.Context, text string) (int, error) {
	switch {
	case text == "":
		return 0, nil
	case j.input == nil:
		return 0, errors.New("the command's input is closed: either you closed it, or exec-daemon was restarted")
	}
	_ = j.input.SetWriteDeadline(time.Now().Add(inputTime))
	stop := context.AfterFunc(ctx, func() { _ = j.input.SetWriteDeadline(time.Unix(1, 0)) })
	n, err := j.input.WriteString(text)
	stop()
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, syscall.EPIPE):
		return n, errors.New("the command has closed its input, so nothing can be written to it")
	case ctx.Err() != nil:
		return n, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, fmt.Errorf("the command did not read its input for %v", inputTime)
	}
	return n, fmt.Errorf("write to the command: %w", err)
}

// signal sends a signal to the command's process group.
func (j *job) signal(sig syscall.Signal) (string, error) {
	name := unix.SignalName(sig)
	if !isRunning(j.pid, j.pidStart) {
		return name, errors.New("the command has ended")
	}
	if err := syscall.Kill(-j.pid, sig); err != nil {
		return name, fmt.Errorf("send %s: %w", name, err)
	}
	return name, nil
}
