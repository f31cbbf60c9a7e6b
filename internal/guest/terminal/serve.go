package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"aloft/internal/fault"
)

// Timeouts of a viewer's connection.
const (
	greetWithin = 10 * time.Second // for the first message
	writeWithin = 30 * time.Second // to receive one message
	pingEvery   = 30 * time.Second
)

// Handler serves the PTYs over WebSockets, at every path. A client that reaches
// it can run any program, so the caller must authenticate requests.
func (h *Host) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			// Requests are authenticated by a token, which a browser cannot
			// send. Browsers connect through the control plane, which checks
			// the origin.
			InsecureSkipVerify: true,
			CompressionMode:    websocket.CompressionDisabled,
		})
		if err != nil {
			return // Accept has sent an error response
		}
		ws.SetReadLimit(maxFrame)
		v := &viewer{h: h, ws: ws}
		err = v.serve(r.Context())
		v.bye(err)
	})
}

// viewer is one connection.
type viewer struct {
	h  *Host
	ws *websocket.Conn
}

// serve handles a connection: it does what the first message requests, until either peer
// closes the connection.
func (v *viewer) serve(ctx context.Context) error {
	for {
		req, err := v.hello(ctx)
		if err != nil {
			return err
		}
		switch req.Type {
		case "list":
			if err := v.list(ctx); err != nil {
				return err
			}
			continue
		case "spawn":
			if req.TTY != nil && !*req.TTY {
				return v.command(ctx, req)
			}
			p, err := v.h.Spawn(Spec{ID: req.ID, Args: req.Args, Env: req.Env, Dir: req.Dir, Columns: req.Columns, Rows: req.Rows})
			if err != nil {
				return err
			}
			return v.watch(ctx, p, req)
		case "terminal":
			p, err := v.h.Attach(ctx, Attachment{Name: req.Terminal, Columns: req.Columns, Rows: req.Rows, ReadOnly: req.ReadOnly, Create: true})
			if err != nil {
				return err
			}
			// This PTY belongs to this viewer; the terminal itself continues.
			defer p.Close()
			return v.watch(ctx, p, req)
		default:
			p, err := v.h.PTY(req.ID)
			if err != nil {
				return err
			}
			if req.Columns != 0 && req.Rows != 0 && !req.ReadOnly {
				if err := p.Resize(req.Columns, req.Rows); err != nil {
					return err
				}
			}
			return v.watch(ctx, p, req)
		}
	}
}

// hello reads the viewer's first message.
func (v *viewer) hello(ctx context.Context) (request, error) {
	ctx, cancel := context.WithTimeout(ctx, greetWithin)
	defer cancel()
	kind, b, err := v.ws.Read(ctx)
	if err != nil {
		return request{}, err
	}
	if kind != websocket.MessageText {
		return request{}, fault.Invalid("the first message must be text").Hint("see docs/reference/pty.md")
	}
	req, err := readRequest(b)
	if err == nil && !first[req.Type] {
		err = fault.Invalid("a connection cannot begin with %.40q", req.Type).At("type").Hint("begin with spawn, attach, terminal or list")
	}
	return req, err
}

func (v *viewer) list(ctx context.Context) error {
	list := []entry{}
	for _, p := range v.h.PTYs() {
		e := entry{ID: p.id, Args: p.args, PID: p.cmd.Process.Pid, Started: p.started.UTC().Format(time.RFC3339Nano)}
		e.Columns, e.Rows = p.Size()
		e.Start, e.End = p.Offsets()
		if p.hasEnded() {
			code := p.exit.Code
			e.Code = &code
		}
		list = append(list, e)
	}
	return v.tell(ctx, event{Type: "ptys", PTYs: &list})
}

// errLeft says that the viewer has closed the connection.
var errLeft = errors.New("the viewer has left")

// watch shows a PTY and forwards input, until the program ends or the viewer
// leaves. The PTY continues without the viewer.
func (v *viewer) watch(ctx context.Context, p *PTY, req request) (err error) {
	start, end := p.Offsets()
	from := start
	if req.From != nil {
		if from = *req.From; from < 0 || from > end {
			from = end
		}
	}
	from = max(from, start)
	cols, rows := p.Size()
	if err := v.tell(ctx, event{Type: "attached", ID: p.id, TTY: true, PID: p.cmd.Process.Pid, Columns: cols, Rows: rows, Offset: &from}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel(nil)
	reading.Go(func() {
		cancel(v.listen(ctx, listener{
			readOnly: req.ReadOnly,
			typed:    func(b []byte) error { return p.Type(ctx, b) },
			resize:   p.Resize, signal: p.Signal,
			eof:   func() error { return p.Type(ctx, []byte{4}) }, // Ctrl-D, as a keyboard sends it
			close: func() { go p.Close() },
		}))
	})
	go v.ping(ctx)
	defer func() { v.bye(err) }() // deferred last, so that it runs before cancel, which would cut it off
	b := make([]byte, 1+64<<10)
	b[0] = channelOutput
	for {
		n, at, err := p.Read(ctx, from, b[1:])
		switch {
		case errors.Is(err, io.EOF):
			<-p.Done()
			if err := v.tell(ctx, exitEvent(p.Exit())); err != nil {
				return err
			}
			return v.ws.Close(websocket.StatusNormalClosure, "the program has ended")
		case err != nil:
			return err
		}
		if at > from {
			if err := v.tell(ctx, event{Type: "gap", Offset: &at}); err != nil {
				return err
			}
		}
		from = at + int64(n)
		if err := v.write(ctx, websocket.MessageBinary, b[:1+n]); err != nil {
			return err
		}
	}
}

// command runs a command for this viewer only. The command is killed when the
// connection ends.
func (v *viewer) command(ctx context.Context, req request) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdin, typed := io.Pipe()
	defer stdin.Close()
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel(nil)
	defer stdin.Close()
	if err := v.tell(ctx, event{Type: "attached"}); err != nil {
		return err
	}
	reading.Go(func() {
		cancel(v.listen(ctx, listener{
			typed: func(b []byte) error {
				_, _ = typed.Write(b) // a command that has ended reads no input
				return nil
			},
			eof:   func() error { return typed.Close() },
			close: func() { cancel(errLeft) },
		}))
	})
	go v.ping(ctx)
	defer func() { v.bye(err) }() // deferred last, so that it runs before cancel, which would cut it off
	exit, err := v.h.Run(ctx, Spec{Args: req.Args, Env: req.Env, Dir: req.Dir}, stdin,
		&channel{v, ctx, channelOutput}, &channel{v, ctx, channelError})
	if err != nil {
		return err
	}
	if err := v.tell(ctx, exitEvent(exit)); err != nil {
		return err
	}
	return v.ws.Close(websocket.StatusNormalClosure, "the command has ended")
}

// channel writes output to a viewer.
type channel struct {
	v   *viewer
	ctx context.Context //nolint:containedctx // the connection's context
	no  byte
}

func (c *channel) Write(b []byte) (int, error) {
	message := append(make([]byte, 0, 1+len(b)), c.no)
	if err := c.v.write(c.ctx, websocket.MessageBinary, append(message, b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// listener has the handlers for a viewer's messages.
type listener struct {
	readOnly bool
	typed    func([]byte) error
	resize   func(columns, rows uint16) error // nil without a terminal
	signal   func(syscall.Signal) error       // nil if signals are not supported
	eof      func() error
	close    func()
}

// listen handles a viewer's messages until the viewer leaves, and returns the
// reason.
func (v *viewer) listen(ctx context.Context, l listener) error {
	for {
		kind, b, err := v.ws.Read(ctx)
		if err != nil {
			return errors.Join(errLeft, err)
		}
		if kind == websocket.MessageBinary {
			err = l.input(b)
		} else {
			err = l.heed(b)
		}
		if err != nil {
			return err
		}
	}
}

func (l listener) input(b []byte) error {
	if len(b) == 0 || b[0] != channelInput {
		return fault.Invalid("a binary message from a viewer must begin with the byte 0").Hint("see docs/reference/pty.md")
	}
	if l.readOnly || len(b) == 1 {
		return nil
	}
	return l.typed(b[1:])
}

func (l listener) heed(b []byte) error {
	req, err := readRequest(b)
	switch {
	case err != nil:
		return err
	case l.readOnly:
		return nil
	}
	switch req.Type {
	case "resize":
		if l.resize != nil {
			return l.resize(req.Columns, req.Rows)
		}
		return nil
	case "signal":
		sig, err := signalOf(req.Signal)
		if err != nil || l.signal == nil {
			return err
		}
		return l.signal(sig)
	case "eof":
		return l.eof()
	case "close":
		l.close()
		return nil
	}
	return fault.Invalid("%.40q is not a valid message type here", req.Type).At("type").Hint("see docs/reference/pty.md")
}

// ping keeps proxies from closing an idle connection, and detects a lost peer.
func (v *viewer) ping(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(ctx, writeWithin)
		err := v.ws.Ping(ctx)
		cancel()
		if err != nil {
			_ = v.ws.CloseNow() // makes the reader fail
			return
		}
	}
}

func (v *viewer) tell(ctx context.Context, e event) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return v.write(ctx, websocket.MessageText, b)
}

// write sends one message. A viewer that does not receive it in time is
// disconnected.
func (v *viewer) write(ctx context.Context, kind websocket.MessageType, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	return v.ws.Write(ctx, kind, b)
}

// bye closes the connection, with the reason if it concerns the viewer.
func (v *viewer) bye(err error) {
	defer func() { _ = v.ws.CloseNow() }()
	if err == nil || errors.Is(err, errLeft) || websocket.CloseStatus(err) != -1 {
		return
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		v.h.cfg.Log.Debug("a viewer's connection ended", "error", err)
		return
	}
	message := f.Message
	if f.Advice != "" {
		message += " (" + f.Advice + ")"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if v.tell(ctx, event{Type: "error", Error: f.Code, Message: message}) == nil {
		_ = v.ws.Close(websocket.StatusPolicyViolation, f.Code)
	}
}
