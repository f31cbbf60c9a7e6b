package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/coder/websocket"
	"golang.org/x/term"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// OpenPTY connects to a machine's PTY service.
type OpenPTY func(ctx context.Context) (*client.PTY, error)

// NeedTerminal returns the command's terminal, or an error if it has none.
func (a *App) NeedTerminal() (in, out *os.File, err error) {
	in, isIn := a.Stdin.(*os.File)
	out, isOut := a.Stdout.(*os.File)
	if !isIn || !isOut || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, nil, UsageError(errors.New("not a terminal: run this in a terminal, or use `aloft agent exec` without -t"))
	}
	return in, out, nil
}

// SizeOf returns the size of a terminal in characters, or 80 by 24 if it is unknown.
func SizeOf(out *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(out.Fd()))
	if err != nil {
		return 80, 24
	}
	return columns, rows
}

// InRawMode puts the terminal into raw mode, calls work with a channel of the
// typed keys, and restores the terminal.
func (a *App) InRawMode(ctx context.Context, in, out *os.File, work func(ctx context.Context, keys <-chan []byte, sizes <-chan os.Signal) (int, error)) (int, error) {
	was, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return 0, err
	}
	defer func() { _ = term.Restore(int(in.Fd()), was) }()
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, syscall.SIGWINCH)
	defer signal.Stop(sizes)
	keys := make(chan []byte)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go read(ctx, in, keys) // a blocked read ends only with the process
	code, err := work(ctx, keys, sizes)
	_, _ = io.WriteString(out, "\x1b[?25h\x1b[0m\r\n") // the remote program may have changed these
	return code, err
}

// read sends its input from in to keys until EOF, then closes keys.
func read(ctx context.Context, in io.Reader, keys chan<- []byte) {
	defer close(keys)
	for {
		b := make([]byte, 32<<10)
		n, err := in.Read(b)
		if n > 0 {
			select {
			case keys <- b[:n]:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// AttachOnce shows a program on the terminal out until the program exits, and
// returns the program's exit code. The error is ErrCut if the connection was
// lost.
func AttachOnce(ctx context.Context, open OpenPTY, ask client.PTYRequest, out *os.File, keys <-chan []byte, sizes <-chan os.Signal) (int, error) {
	p, err := open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.Close() }()
	if err := p.Ask(ctx, ask); err != nil {
		return 0, errors.Join(ErrCut, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go typing(ctx, p, keys, sizes, out, ask.Type == "terminal")
	return watchPTY(ctx, p, out, out)
}

// typing sends keys and terminal sizes to p. When keys is closed, it detaches
// if leave is true, or else sends EOF.
func typing(ctx context.Context, p *client.PTY, keys <-chan []byte, sizes <-chan os.Signal, out *os.File, leave bool) {
	for {
		var err error
		select {
		case b, ok := <-keys:
			switch {
			case ok:
				err = p.Type(ctx, b)
			case leave:
				_ = p.Close()
				return
			default:
				err = p.Ask(ctx, client.PTYRequest{Type: "eof"})
				keys = nil
			}
		case <-sizes:
			columns, rows := SizeOf(out)
			err = p.Ask(ctx, client.PTYRequest{Type: "resize", Columns: columns, Rows: rows})
		case <-ctx.Done():
			return
		}
		if err != nil {
			return // watchPTY will report the error
		}
	}
}

// ErrCut means that the connection ended before the program exited.
var ErrCut = errors.New("the connection to the machine was lost")

// watchPTY copies a program's output until the program exits, and returns the
// exit code.
func watchPTY(ctx context.Context, p *client.PTY, out, errs io.Writer) (int, error) {
	for {
		e, err := p.Next(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return 0, cause
			}
			if status := websocket.CloseStatus(err); status == websocket.StatusPolicyViolation || status == websocket.StatusMessageTooBig {
				return 0, err
			}
			return 0, errors.Join(ErrCut, err)
		}
		switch {
		case e.Type == "" && e.Channel == client.PTYError:
			_, err = errs.Write(e.Data)
		case e.Type == "":
			_, err = out.Write(e.Data)
		case e.Type == "exit":
			return e.Code, nil
		case e.Type == "error":
			return 0, &cli.Problem{Exit: cli.Failure, Code: e.Error, Message: cli.Clean(e.Message)}
		}
		if err != nil {
			return 0, err
		}
	}
}

// RunPTY runs a command and returns the exit code. If the connection is lost,
// the command ends.
func (a *App) RunPTY(ctx context.Context, open OpenPTY, ask client.PTYRequest) (int, error) {
	if *ask.TTY {
		in, out, err := a.NeedTerminal()
		if err != nil {
			return 0, err
		}
		ask.Columns, ask.Rows = SizeOf(out)
		return a.InRawMode(ctx, in, out, func(ctx context.Context, keys <-chan []byte, sizes <-chan os.Signal) (int, error) {
			return AttachOnce(ctx, open, ask, out, keys, sizes)
		})
	}
	p, err := open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.Close() }()
	if err := p.Ask(ctx, ask); err != nil {
		return 0, errors.Join(ErrCut, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := make(chan []byte)
	go read(ctx, a.Stdin, keys) // a blocked read ends only with the process
	go typing(ctx, p, keys, nil, nil, false)
	return watchPTY(ctx, p, a.Stdout, a.Stderr)
}
