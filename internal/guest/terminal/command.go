package terminal

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"aloft/internal/guest/pty"
	"aloft/internal/redact"
)

// Run runs a command without a terminal for one caller. No output is lost: if
// the caller does not read, the command blocks. When ctx ends, the command and
// its session are killed. stdin may be nil; a read from it may last longer than
// Run.
func (h *Host) Run(ctx context.Context, s Spec, stdin io.Reader, stdout, stderr io.Writer) (Exit, error) {
	s, err := h.complete(s)
	if err != nil {
		return Exit{}, err
	}
	cmd := exec.CommandContext(ctx, s.Args[0], s.Args[1:]...)
	cmd.Env, cmd.Dir = h.environ(s.Env), s.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var theirs, ours []*os.File
	defer func() { closeAll(append(theirs, ours...)) }()
	var feed func()
	if stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return Exit{}, err
		}
		theirs, cmd.Stdin = append(theirs, r), r
		feed = func() {
			_, _ = io.Copy(w, stdin) // the command may end without reading all of it
			_ = w.Close()
		}
		ours = append(ours, w)
	}
	exited := make(chan struct{})
	var draining sync.WaitGroup
	var drains []func()
	var clean []*redact.Live
	for _, out := range []struct {
		file *io.Writer
		dst  io.Writer
	}{{&cmd.Stdout, stdout}, {&cmd.Stderr, stderr}} {
		r, w, err := os.Pipe()
		if err != nil {
			return Exit{}, err
		}
		theirs, ours, *out.file = append(theirs, w), append(ours, r), w
		dst := redact.NewLive(out.dst, h.cfg.Secrets)
		clean = append(clean, dst)
		drains = append(drains, func() { pty.Copy(dst, r, exited) })
	}
	if err := cmd.Start(); err != nil {
		return Exit{}, startFault(s.Args[0], err)
	}
	closeAll(theirs)
	if feed != nil {
		go feed()
	}
	for _, d := range drains {
		draining.Go(d)
	}
	err = cmd.Wait()
	close(exited)
	draining.Wait() // do not wait for other processes that have the output open
	for _, out := range clean {
		_ = out.Close() // fails if the reader has disconnected
	}
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	return exitOf(err, cmd), nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
