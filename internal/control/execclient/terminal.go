package execclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"github.com/coder/websocket"
	"google.golang.org/protobuf/types/known/timestamppb"

	"aloft/internal/control/machinerpc"
	"aloft/internal/control/pod"
	"aloft/internal/fault"
	"aloft/internal/terminal"
	"aloft/internal/text"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Limits for a machine's replies about its terminals.
const (
	maxTerminals    = 256
	maxTerminalText = 8 << 20 // bytes
	maxPTYFrame     = 1 << 20 // bytes
)

// DialPTY connects to the machine's terminals, with the protocol of
// docs/reference/pty.md. token is exec-daemon's. Once the connection is made,
// ctx no longer affects it.
func DialPTY(ctx context.Context, conn Conn, token string) (*websocket.Conn, error) {
	ws, res, err := websocket.Dial(ctx, "ws://exec/v1/pty", &websocket.DialOptions{
		HTTPClient:      machinerpc.NewWebSocketClient(conn.OpenPTY),
		HTTPHeader:      http.Header{"Authorization": {"Bearer " + token}},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		if res != nil && res.StatusCode == http.StatusUnauthorized {
			return nil, fault.Denied("the machine's exec-daemon does not accept this server's token").Named("machine_denied")
		}
		return nil, conn.Lost(fmt.Errorf("open a PTY: %s", text.Head(err.Error(), maxDetail)))
	}
	ws.SetReadLimit(maxPTYFrame)
	return ws, nil
}

// Screen is the content of a terminal.
type Screen struct {
	Text      string
	Truncated bool // the beginning is missing
	Terminal  terminal.Terminal
}

// Keys is input for a terminal: either Text, or one Key with its name in tmux.
type Keys struct{ Text, Key string }

// Terminals controls a machine's terminals. Its methods are safe for concurrent
// use. Their errors are faults, or wrap [pod.ErrLost].
type Terminals struct {
	client[agentv1connect.TerminalServiceClient]
}

// NewTerminals returns the machine's terminals. token is exec-daemon's. The
// caller must call Close.
func NewTerminals(conn Conn, token string) *Terminals {
	return &Terminals{newClient(conn, token, maxTerminalText+1<<20, agentv1connect.NewTerminalServiceClient)}
}

// List returns the terminals, sorted by name.
func (t *Terminals) List(ctx context.Context) ([]terminal.Terminal, error) {
	res, err := t.service.ListTerminals(ctx, connect.NewRequest(&agentv1.ListTerminalsRequest{}))
	if err != nil {
		return nil, t.fault("list terminals", err)
	}
	list := res.Msg.GetTerminals()
	found := make([]terminal.Terminal, 0, min(len(list), maxTerminals))
	for _, m := range list[:min(len(list), maxTerminals)] {
		found = append(found, terminalOf(m))
	}
	return found, nil
}

// Create creates a terminal, or returns the existing one with that name.
func (t *Terminals) Create(ctx context.Context, n terminal.New) (made terminal.Terminal, created bool, err error) {
	var policy *agentv1.SandboxPolicy
	if n.Sandbox != nil {
		policy = machinerpc.EncodePolicy(*n.Sandbox)
	}
	res, err := t.service.CreateTerminal(ctx, connect.NewRequest(&agentv1.CreateTerminalRequest{
		SandboxPolicy: policy,
		Name:          n.Name, Command: n.Command, Directory: n.Dir, Env: n.Env,
		Columns: int32(min(max(n.Columns, 0), 1<<15)), Rows: int32(min(max(n.Rows, 0), 1<<15)),
	}))
	if err != nil {
		return terminal.Terminal{}, false, t.fault("create a terminal", err)
	}
	return terminalOf(res.Msg.GetTerminal()), res.Msg.GetCreated(), nil
}

// Read returns a terminal's content, with the given number of history lines
// above it; a negative number means all.
func (t *Terminals) Read(ctx context.Context, name string, history int) (Screen, error) {
	res, err := t.service.ReadTerminal(ctx, connect.NewRequest(&agentv1.ReadTerminalRequest{Name: name, HistoryLines: int32(min(max(history, -1), 1<<20))}))
	if err != nil {
		return Screen{}, t.fault("read a terminal", err)
	}
	content := res.Msg.GetText()
	return Screen{
		Text: text.Head(content, maxTerminalText), Truncated: res.Msg.GetTruncated() || len(content) > maxTerminalText,
		Terminal: terminalOf(res.Msg.GetTerminal()),
	}, nil
}

// Send types keys, in order.
func (t *Terminals) Send(ctx context.Context, name string, keys []Keys) error {
	req := &agentv1.SendTerminalKeysRequest{Name: name}
	for _, k := range keys {
		if k.Key != "" {
			req.Keys = append(req.Keys, &agentv1.TerminalKeys{Keys: &agentv1.TerminalKeys_Key{Key: k.Key}})
		}
		if k.Text != "" {
			req.Keys = append(req.Keys, &agentv1.TerminalKeys{Keys: &agentv1.TerminalKeys_Text{Text: k.Text}})
		}
	}
	_, err := t.service.SendTerminalKeys(ctx, connect.NewRequest(req))
	return t.fault("type in a terminal", err)
}

// End closes a terminal and kills the processes in it.
func (t *Terminals) End(ctx context.Context, name string) error {
	_, err := t.service.CloseTerminal(ctx, connect.NewRequest(&agentv1.CloseTerminalRequest{Name: name}))
	return t.fault("close a terminal", err)
}

// when converts a time that a machine reports. An invalid one becomes the zero
// time.
func when(told *timestamppb.Timestamp) time.Time {
	if !told.IsValid() {
		return time.Time{}
	}
	return told.AsTime()
}

func terminalOf(m *agentv1.Terminal) terminal.Terminal {
	out := terminal.Terminal{
		Name: text.Head(m.GetName(), maxWord), Created: when(m.GetCreatedAt()), Active: when(m.GetActiveAt()),
		Attached: int(m.GetAttached()), Columns: int(m.GetColumns()), Rows: int(m.GetRows()),
		Command: text.Head(m.GetCommand(), maxWord), Dir: text.Head(m.GetDirectory(), maxDetail), Dead: m.GetDead(),
	}
	if m != nil && m.ExitCode != nil { // a hostile machine may reply without a terminal
		code := int(m.GetExitCode())
		out.ExitCode = &code
	}
	return out
}

// fault converts an error of exec-daemon.
func (t *Terminals) fault(op string, err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", op, t.conn.Lost(err))
	}
	words := text.Head(e.Message(), maxDetail)
	switch e.Code() {
	case connect.CodeInvalidArgument:
		return fault.Invalid("%s: %s", op, words)
	case connect.CodeNotFound:
		return fault.NotFound("%s: %s", op, words).Named("terminal_not_found")
	case connect.CodeFailedPrecondition, connect.CodeAlreadyExists:
		return fault.Conflict("%s: %s", op, words)
	case connect.CodeResourceExhausted:
		return fault.Exhausted("%s: %s", op, words)
	case connect.CodeUnimplemented:
		return fault.NotImplemented("%s: %s", op, words).Named("tmux_missing")
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return fault.Denied("%s: the machine's exec-daemon does not accept this server's token", op).Named("machine_denied")
	case connect.CodeUnavailable:
		if lost := t.conn.Lost(err); errors.Is(lost, pod.ErrLost) {
			return fmt.Errorf("%s: %w", op, lost)
		}
		return fault.Unavailable("%s: %s", op, words)
	}
	return fmt.Errorf("%s: %w", op, t.error(err))
}
