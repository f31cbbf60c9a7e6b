package terminal

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"aloft/internal/fault"
	"aloft/internal/guest/pty"
	"aloft/internal/redact"
)

// hangupGrace is the time between SIGHUP and SIGKILL.
const hangupGrace = 2 * time.Second

// inputs is how many writes are buffered for a program that does not read.
const inputs = 64

// Exit is a program's exit status.
type Exit struct {
	Code   int            // exit code, as in a shell
	Signal syscall.Signal // 0 if no signal killed it
}

// PTY is a program in a pseudo-terminal. Its methods are safe for concurrent
// use.
type PTY struct {
	id      string
	args    []string
	started time.Time
	file    *os.File // the master side of the terminal
	cmd     *exec.Cmd
	out     *ring
	in      chan []byte
	done    chan struct{} // closed when the program has ended and all output was read
	exit    Exit          // valid once done is closed

	mu         sync.Mutex
	cols, rows uint16
}

func startPTY(s Spec, env []string, cfg Config) (*PTY, error) {
	cmd := exec.Command(s.Args[0], s.Args[1:]...) //nolint:noctx // it outlives the request
	cmd.Env, cmd.Dir = env, s.Dir
	file, err := pty.Start(cmd, pty.Size{Cols: s.Columns, Rows: s.Rows})
	if err != nil {
		return nil, startFault(s.Args[0], err)
	}
	p := &PTY{
		id: s.ID, args: s.Args, started: time.Now(), file: file, cmd: cmd, out: newRing(cfg.Scrollback),
		in: make(chan []byte, inputs), done: make(chan struct{}), cols: s.Columns, rows: s.Rows,
	}
	ended, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		out := redact.NewLive(p.out, cfg.Secrets)
		defer out.Close()
		pty.Copy(out, file, ended)
	}()
	go p.feed()
	go func() {
		p.exit = exitOf(cmd.Wait(), cmd)
		close(ended)
		<-read
		_ = file.Close()
		p.out.close()
		cfg.Log.Debug("the program of a PTY has exited", "pty", p.id, "code", p.exit.Code)
		close(p.done)
	}()
	return p, nil
}

// exitOf returns how a command ended.
func exitOf(err error, cmd *exec.Cmd) Exit {
	if cmd.ProcessState == nil {
		_ = err // waiting failed, so the status is unknown
		return Exit{Code: -1}
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	return Exit{Code: cmd.ProcessState.ExitCode()}
}

// feed writes input. If the program does not read, only this goroutine blocks.
func (p *PTY) feed() {
	for {
		select {
		case b := <-p.in:
			if _, err := p.file.Write(b); err != nil {
				return
			}
		case <-p.done:
			return
		}
	}
}

// ID returns the PTY's id.
func (p *PTY) ID() string { return p.id }

// Done is closed when the program has ended and all its output was read.
func (p *PTY) Done() <-chan struct{} { return p.done }

// Exit returns the program's exit status; valid once Done is closed.
func (p *PTY) Exit() Exit { return p.exit }

func (p *PTY) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Type sends input; the PTY keeps b. If the program leaves too much input
// unread, Type blocks until it reads or ctx ends.
func (p *PTY) Type(ctx context.Context, b []byte) error {
	select {
	case p.in <- b:
		return nil
	case <-p.done:
		return fault.Gone("the program has ended").Named("pty_ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Size returns the terminal's size in characters.
func (p *PTY) Size() (columns, rows uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cols, p.rows
}

// Resize changes the terminal's size for all viewers and signals the program.
func (p *PTY) Resize(columns, rows uint16) error {
	if columns == 0 || rows == 0 {
		return fault.Invalid("a terminal needs at least one column and one row").At("columns")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasEnded() {
		return nil
	}
	if err := pty.Resize(p.file, pty.Size{Cols: columns, Rows: rows}); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	p.cols, p.rows = columns, rows
	return nil
}

// Signal sends a signal to the program's process group.
func (p *PTY) Signal(sig syscall.Signal) error {
	if p.hasEnded() {
		return nil
	}
	// The process id cannot be reused until the Wait in startPTY has returned, and is
	// unlikely to be reused right after that.
	if err := syscall.Kill(-p.cmd.Process.Pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// Close sends SIGHUP to the program, and SIGKILL if it does not end. It returns
// once the program has ended.
func (p *PTY) Close() {
	_ = p.Signal(syscall.SIGHUP) // it may have ended already
	_ = p.Signal(syscall.SIGCONT)
	select {
	case <-p.done:
		return
	case <-time.After(hangupGrace):
	}
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
}

// Offsets returns the offsets of the oldest kept byte and of the next byte,
// counted from the program's first.
func (p *PTY) Offsets() (start, end int64) { return p.out.offsets() }

// Read reads output into b, starting at offset from, and waits until there is some. at
// is the offset of b's first byte; it is greater than from if a slow reader has missed
// output. After the last byte the error is io.EOF.
func (p *PTY) Read(ctx context.Context, from int64, b []byte) (n int, at int64, err error) {
	return p.out.read(ctx, from, b)
}
