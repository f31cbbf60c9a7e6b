package execd

import (
	"context"
	"math"
	"path/filepath"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"aloft/internal/fault"
	"aloft/internal/guest/terminal"
	noun "aloft/internal/terminal"
	"aloft/internal/wire/agentv1"
)

// ListTerminals implements TerminalService.
func (s *Server) ListTerminals(ctx context.Context, _ *connect.Request[agentv1.ListTerminalsRequest]) (*connect.Response[agentv1.ListTerminalsResponse], error) {
	tmux, err := s.terminals.Terminals()
	if err != nil {
		return nil, err
	}
	list, err := tmux.List(ctx)
	if err != nil {
		return nil, err
	}
	res := &agentv1.ListTerminalsResponse{}
	for _, t := range list {
		res.Terminals = append(res.Terminals, terminalMessage(t))
	}
	return connect.NewResponse(res), nil
}

// CreateTerminal implements TerminalService.
func (s *Server) CreateTerminal(ctx context.Context, req *connect.Request[agentv1.CreateTerminalRequest]) (*connect.Response[agentv1.CreateTerminalResponse], error) {
	tmux, err := s.terminals.Terminals()
	if err != nil {
		return nil, err
	}
	m := req.Msg
	columns, rows, err := terminalSize(m.GetColumns(), m.GetRows())
	if err != nil {
		return nil, err
	}
	dir := m.GetDirectory()
	if dir != "" && !filepath.IsAbs(dir) {
		dir = filepath.Join(s.workspace, dir)
	}
	command, err := s.confined(m.GetCommand(), m.GetSandboxPolicy())
	if err != nil {
		return nil, err
	}
	made, created, err := tmux.Create(ctx, noun.New{
		Name: m.GetName(), Command: command, Dir: dir, Env: m.GetEnv(), Columns: int(columns), Rows: int(rows),
	})
	if err != nil {
		return nil, err
	}
	if !created && m.GetExclusive() {
		return nil, fault.Conflict("there already is a terminal %.70q", m.GetName()).Named("terminal_exists").At("name")
	}
	return connect.NewResponse(&agentv1.CreateTerminalResponse{Terminal: terminalMessage(made), Created: created}), nil
}

// confined returns a terminal's command line, wrapped in the sandbox if there
// is a policy.
func (s *Server) confined(command string, p *agentv1.SandboxPolicy) (string, error) {
	if p == nil {
		return command, nil
	}
	around, err := s.sandbox.Around(p)
	if err != nil {
		return "", fault.Invalid("%v", err).At("sandbox_policy")
	}
	// tmux sets SHELL to the user's shell, which runs the command line.
	argv := []string{"/bin/sh", "-c", `exec "${SHELL:-/bin/sh}" "$@"`, "sh"}
	if command == "" {
		argv = append(argv, "-l")
	} else {
		argv = append(argv, "-c", command)
	}
	if argv, err = around(argv...); err != nil {
		return "", err
	}
	for i, a := range argv {
		argv[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return "exec " + strings.Join(argv, " "), nil
}

// AttachTerminal implements TerminalService.
func (s *Server) AttachTerminal(ctx context.Context, req *connect.Request[agentv1.AttachTerminalRequest]) (*connect.Response[agentv1.AttachTerminalResponse], error) {
	m := req.Msg
	columns, rows, err := terminalSize(m.GetColumns(), m.GetRows())
	if err != nil {
		return nil, err
	}
	p, err := s.terminals.Attach(ctx, terminal.Attachment{Name: m.GetName(), Columns: columns, Rows: rows, ReadOnly: m.GetReadOnly()})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.AttachTerminalResponse{PtyId: p.ID()}), nil
}

// ReadTerminal implements TerminalService.
func (s *Server) ReadTerminal(ctx context.Context, req *connect.Request[agentv1.ReadTerminalRequest]) (*connect.Response[agentv1.ReadTerminalResponse], error) {
	tmux, err := s.terminals.Terminals()
	if err != nil {
		return nil, err
	}
	name := req.Msg.GetName()
	t, err := tmux.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	text, truncated, err := tmux.Read(ctx, name, int(req.Msg.GetHistoryLines()), req.Msg.GetEscapes())
	if err != nil {
		return nil, err
	}
	column, row, err := tmux.Cursor(ctx, name)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.ReadTerminalResponse{
		Text: text, Truncated: truncated, CursorColumn: clamp(column), CursorRow: clamp(row), Terminal: terminalMessage(t),
	}), nil
}

// SendTerminalKeys implements TerminalService.
func (s *Server) SendTerminalKeys(ctx context.Context, req *connect.Request[agentv1.SendTerminalKeysRequest]) (*connect.Response[agentv1.SendTerminalKeysResponse], error) {
	tmux, err := s.terminals.Terminals()
	if err != nil {
		return nil, err
	}
	keys := make([]terminal.Keys, 0, len(req.Msg.GetKeys()))
	for _, k := range req.Msg.GetKeys() {
		keys = append(keys, terminal.Keys{Text: k.GetText(), Key: k.GetKey()})
	}
	if len(keys) > maxKeys {
		return nil, fault.Exhausted("%d keys are too many for one request", len(keys)).At("keys").Hint("at most %d", maxKeys)
	}
	if err := tmux.Send(ctx, req.Msg.GetName(), keys); err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.SendTerminalKeysResponse{}), nil
}

// maxKeys limits one SendTerminalKeys, because each key starts a process.
const maxKeys = 256

// CloseTerminal implements TerminalService.
func (s *Server) CloseTerminal(ctx context.Context, req *connect.Request[agentv1.CloseTerminalRequest]) (*connect.Response[agentv1.CloseTerminalResponse], error) {
	tmux, err := s.terminals.Terminals()
	if err != nil {
		return nil, err
	}
	if err := tmux.End(ctx, req.Msg.GetName()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.CloseTerminalResponse{}), nil
}

// terminalSize checks a size and replaces 0 by the default.
func terminalSize(columns, rows int32) (c, r uint16, err error) {
	const most = 1000
	if columns < 0 || rows < 0 || columns > most || rows > most {
		return 0, 0, fault.Invalid("a terminal has at most %d columns and rows", most).At("columns")
	}
	return uint16(columns), uint16(rows), nil
}

func terminalMessage(t noun.Terminal) *agentv1.Terminal {
	out := &agentv1.Terminal{
		Name: t.Name, CreatedAt: timestamppb.New(t.Created), ActiveAt: timestamppb.New(t.Active),
		Attached: clamp(t.Attached), Columns: clamp(t.Columns), Rows: clamp(t.Rows),
		Command: t.Command, Directory: t.Dir, Pid: clamp(t.PID), Dead: t.Dead,
	}
	if t.ExitCode != nil {
		code := clamp(*t.ExitCode)
		out.ExitCode = &code
	}
	return out
}

func clamp(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
