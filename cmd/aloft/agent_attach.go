package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// reattachWithin is how long attach retries after losing its connection.
const reattachWithin = 30 * time.Second

func newAgentAttachCommand(a *app) *cobra.Command {
	var terminal string
	var readOnly bool
	cmd := &cobra.Command{
		Use:   "attach AGENT",
		Short: "Open a terminal that you share with an agent",
		Long: `Open a terminal that you share with an agent.

The terminal is a tmux session in the agent's machine. Everyone attached sees the
same screen, and the session keeps running after you detach with Ctrl-B D.`,
		Example: `  aloft agent attach bc-…
  aloft agent attach bc-… --terminal build --read-only`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, out, err := a.needTerminal()
			if err != nil {
				return err
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			columns, rows := sizeOf(out)
			ask := client.PTYRequest{Type: "terminal", Terminal: terminal, ReadOnly: readOnly, Columns: columns, Rows: rows}
			_, err = a.inRawMode(cmd.Context(), in, out, func(ctx context.Context, keys <-chan []byte, sizes <-chan os.Signal) (int, error) {
				return attachAgain(ctx, agentPTY(c, args[0]), ask, out, keys, sizes)
			})
			return err
		},
	}
	cmd.Flags().StringVar(&terminal, "terminal", "main", "terminal name; created if it does not exist")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "watch without typing")
	return cmd
}

// openPTY connects to a machine's PTY service.
type openPTY func(ctx context.Context) (*client.PTY, error)

func agentPTY(c *client.Client, agentID string) openPTY {
	return func(ctx context.Context) (*client.PTY, error) { return c.OpenPTY(ctx, agentID) }
}

// needTerminal returns the command's terminal, or an error if it has none.
func (a *app) needTerminal() (in, out *os.File, err error) {
	in, isIn := a.stdin.(*os.File)
	out, isOut := a.stdout.(*os.File)
	if !isIn || !isOut || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, nil, usageError{errors.New("not a terminal: run this in a terminal, or use `aloft agent exec` without -t")}
	}
	return in, out, nil
}

func sizeOf(out *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(out.Fd()))
	if err != nil {
		return 80, 24
	}
	return columns, rows
}

// inRawMode puts the terminal into raw mode, runs work with the keys typed, and
// restores the terminal.
func (a *app) inRawMode(ctx context.Context, in, out *os.File, work func(ctx context.Context, keys <-chan []byte, sizes <-chan os.Signal) (int, error)) (int, error) {
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
	go read(ctx, in, keys) // a blocked read ends with the process
	code, err := work(ctx, keys, sizes)
	_, _ = io.WriteString(out, "\x1b[?25h\x1b[0m\r\n") // the remote program may have changed these
	return code, err
}

// read sends what it reads from in to keys until EOF, then closes keys.
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

// attachAgain shows a terminal and reconnects when the connection is lost.
func attachAgain(ctx context.Context, open openPTY, ask client.PTYRequest, out *os.File, keys <-chan []byte, sizes <-chan os.Signal) (int, error) {
	for wait := 100 * time.Millisecond; ; {
		begun := time.Now()
		code, err := attachOnce(ctx, open, ask, out, keys, sizes)
		if !errors.Is(err, errCut) {
			return code, err
		}
		if time.Since(begun) > reattachWithin {
			wait = 100 * time.Millisecond
		}
		if wait > reattachWithin/3 {
			return 0, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		wait *= 2
		ask.Columns, ask.Rows = sizeOf(out)
	}
}

func attachOnce(ctx context.Context, open openPTY, ask client.PTYRequest, out *os.File, keys <-chan []byte, sizes <-chan os.Signal) (int, error) {
	p, err := open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.Close() }()
	if err := p.Ask(ctx, ask); err != nil {
		return 0, errors.Join(errCut, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go typing(ctx, p, keys, sizes, out, ask.Type == "terminal")
	return watchPTY(ctx, p, out, out)
}

// typing sends keys and terminal sizes to p. When keys is closed it detaches if
// leave is set, and sends EOF otherwise.
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
			columns, rows := sizeOf(out)
			err = p.Ask(ctx, client.PTYRequest{Type: "resize", Columns: columns, Rows: rows})
		case <-ctx.Done():
			return
		}
		if err != nil {
			return // watchPTY reports the error
		}
	}
}

// errCut means that the connection ended before the program did.
var errCut = errors.New("the connection to the machine was lost")

// watchPTY copies a program's output until it exits, and returns its exit code.
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
			return 0, errors.Join(errCut, err)
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
