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

// hangupGrace is the time from SIGHUP to SIGKILL.
const hangupGrace = 2 * time.Second

// inputs is how many writes wait for a program that does not read.
const inputs = 64

// Exit is how a program ended.
type Exit struct {
	Code   int            // as a shell gives it
	Signal syscall.Signal // 0 where it ended by itself
}

// PTY is a program at a terminal. Its methods are safe for concurrent use.
type PTY struct {
	id      string
	args    []string
	started time.Time
	file    *os.File // the terminal's other end
	cmd     *exec.Cmd
	out     *ring
	in      chan []byte
	done    chan struct{} // closed when the program has ended and all was read
	exit    Exit          // valid once done is closed

	mu         sync.Mutex
	cols, rows uint16
}

func startPTY(s Spec, env []string, cfg Config) (*PTY, error) {
	cmd := exec.Command(s.Args[0], s.Args[1:]...) //nolint:noctx // it outlives whoever asked for it
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
		cfg.Log.Debug("a PTY's program has ended", "pty", p.id, "code", p.exit.Code)
		close(p.done)
	}()
	return p, nil
}

// exitOf reads how a command ended.
func exitOf(err error, cmd *exec.Cmd) Exit {
	if cmd.ProcessState == nil {
		_ = err // waiting failed: there is nothing to know
		return Exit{Code: -1}
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	return Exit{Code: cmd.ProcessState.ExitCode()}
}

// feed writes what is typed. A program that does not read holds up this
// goroutine and nobody else.
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

// ID names the PTY.
func (p *PTY) ID() string { return p.id }

// Done is closed when the program has ended and its output is whole.
func (p *PTY) Done() <-chan struct{} { return p.done }

// Exit says how the program ended; valid once Done is closed.
func (p *PTY) Exit() Exit { return p.exit }

func (p *PTY) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Type types b, which the PTY keeps. It waits while the program leaves too
// much unread and ctx lasts.
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

// Size is the terminal's, in characters.
func (p *PTY) Size() (columns, rows uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cols, p.rows
}

// Resize changes the terminal's size for everybody; the program is told.
func (p *PTY) Resize(columns, rows uint16) error {
	if columns == 0 || rows == 0 {
		return fault.Invalid("a terminal has at least one column and one row").At("columns")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended() {
		return nil
	}
	if err := pty.Resize(p.file, pty.Size{Cols: columns, Rows: rows}); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	p.cols, p.rows = columns, rows
	return nil
}

// Signal signals the program and its process group.
func (p *PTY) Signal(sig syscall.Signal) error {
	if p.ended() {
		return nil
	}
	// Its number is not another's before the Wait in startPTY has returned, and
	// then hardly at once.
	if err := syscall.Kill(-p.cmd.Process.Pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// Close hangs up: the program is told, and killed if it does not end. It
// returns when the program has.
func (p *PTY) Close() {
	_ = p.Signal(syscall.SIGHUP) // it has ended
	_ = p.Signal(syscall.SIGCONT)
	select {
	case <-p.done:
		return
	case <-time.After(hangupGrace):
	}
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
}

// Offsets returns where the scrollback begins and where the next byte will be,
// in bytes from the program's first.
func (p *PTY) Offsets() (start, end int64) { return p.out.offsets() }

// Read fills b with output from an offset on, and waits for it. at is where b
// begins: after from where a slow reader has missed something. The error after
// the last byte is io.EOF.
func (p *PTY) Read(ctx context.Context, from int64, b []byte) (n int, at int64, err error) {
	return p.out.read(ctx, from, b)
}
