package tool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	rg "aloft/internal/guest/ripgrep"
	"aloft/internal/guest/sandbox"
)

// errEnough is returned by a function that has read enough of ripgrep's output.
var errEnough = errors.New("enough")

// ripgrep runs rg, or its replacement if the machine has none, in dir and calls read
// with its output. When read returns, ripgrep stops rg and returns read's error, unless
// that is errEnough. If rg rejects its arguments, the error contains rg's message for
// the model.
func ripgrep(ctx context.Context, ws Workspace, dir string, args []string, read func(*bufio.Reader) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	command := append(rg.Command(ws.Ripgrep), args...)
	if ws.confined != nil {
		inside, err := sandbox.Arguments(*ws.confined, command...)
		if err != nil {
			return err
		}
		command = append([]string{ws.Sandbox.Helper}, inside...)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // kill every process that has the pipe open
	var complaint bounded
	cmd.Stderr = &complaint
	in, out, err := newGather()
	if err != nil {
		return fmt.Errorf("ripgrep: %w", err)
	}
	defer in.pipe.Close()
	cmd.Stdout = out
	err = cmd.Start()
	out.Close()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("ripgrep: %w", err)
	}
	readErr := read(bufio.NewReaderSize(in, 64<<10))
	if readErr != nil {
		stop()
	}
	waitErr := cmd.Wait()
	switch {
	case errors.Is(readErr, errEnough):
		return nil
	case context.Cause(ctx) != nil && readErr == nil:
		return context.Cause(ctx)
	case readErr != nil:
		return readErr
	}
	if exit, ok := errors.AsType[*exec.ExitError](waitErr); ok {
		switch {
		case exit.ExitCode() == 1: // no matches
			return nil
		case exit.ExitCode() == 2 && len(complaint.text) == 0: // only unreadable files were skipped
			return nil
		case exit.ExitCode() == 2:
			return errors.New(tidyComplaint(string(complaint.text)))
		}
	}
	if waitErr != nil {
		return fmt.Errorf("ripgrep: %w", waitErr)
	}
	return nil
}

// tidyComplaint removes the parts of rg's message that are of no use to the
// model.
func tidyComplaint(text string) string {
	text, _, _ = strings.Cut(text, "\nConsider enabling")
	return strings.TrimSpace(strings.ReplaceAll(valid(text), "\n\n", "\n"))
}

// bounded is a writer that keeps the first bytes.
type bounded struct{ text []byte }

func (b *bounded) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), 4096-len(b.text))]...)
	return len(p), nil
}

// ripgrepArgs are the arguments of every run of rg. Hidden files are searched,
// because much of a project's configuration is in them; the .git folder is not.
var ripgrepArgs = []string{"--no-config", "--color=never", "--no-messages", "--hidden", "--no-require-git", "--glob=!.git", "--null"}

// readName reads a file name terminated by a zero byte. Names begin with ./ or
// /, because rg was given its folder in that form. This distinguishes them from
// the other lines that rg prints: -- between groups of context lines, and its
// message about a binary file.
func readName(in *bufio.Reader) (string, error) {
	raw, err := in.ReadBytes(0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return "", io.EOF
		}
		return "", err
	}
	raw = bytes.TrimSuffix(raw, []byte{0})
	for {
		rest, isSeparator := bytes.CutPrefix(raw, []byte("--\n"))
		if !isSeparator {
			if rest = afterRemark(raw); rest == nil {
				break
			}
		}
		raw = rest
	}
	return string(bytes.TrimPrefix(raw, []byte("./"))), nil
}

// afterRemark returns the text after rg's message that a file is binary, or nil
// if raw does not begin with that message.
func afterRemark(raw []byte) []byte {
	for _, words := range []string{`binary file matches (found "\0"`, `WARNING: stopped searching binary file after match (found "\0"`} {
		at := bytes.Index(raw, []byte(words))
		if at < 0 {
			continue
		}
		if end := bytes.IndexByte(raw[at:], '\n'); end >= 0 {
			return raw[at+end+1:]
		}
	}
	return nil
}
