package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"aloft/internal/guest/execd"
	"aloft/internal/guest/shell"
	"aloft/internal/guest/tool"
	"aloft/internal/wire/agentv1"
)

// shells are the agent's own session, and those of subagents that work beside it,
// by their names. Their methods are safe for concurrent use.
type shells struct {
	own *lateShell

	mu         sync.Mutex
	closed     bool
	background []*sideShell      // the one that was used last is the last
	set        map[string]string // since the daemon started
	unset      map[string]bool   // likewise
}

// sideShell is the session of a subagent.
type sideShell struct {
	*lateShell
	name  string
	calls int // that work in it
}

// maxBackground bounds the sessions of subagents that nothing works in: more of them
// than subagents can be asked more.
const maxBackground = 8

func newShells(cfg shell.Config, log *slog.Logger) *shells {
	return &shells{own: newLateShell(cfg, log), set: map[string]string{}, unset: map[string]bool{}}
}

// use is the session of that name, "" for the agent's own, until done is called.
func (b *shells) use(name string) (of *lateShell, done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name == "" || b.closed {
		return b.own, func() {}
	}
	i := slices.IndexFunc(b.background, func(s *sideShell) bool { return s.name == name })
	var s *sideShell
	if i >= 0 {
		s = b.background[i]
		b.background = slices.Delete(b.background, i, i+1)
	} else {
		cfg := b.own.cfg
		cfg.OutputDir = filepath.Join(cmp.Or(cfg.OutputDir, shell.DefaultOutputDir), "of-"+filepath.Base(name))
		s = &sideShell{lateShell: newLateShell(cfg, b.own.log), name: name}
		s.set, s.unset = maps.Clone(b.set), slices.Sorted(maps.Keys(b.unset))
	}
	s.calls++
	b.background = append(b.background, s)
	return s.lateShell, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		s.calls--
		b.closeIdle()
	}
}

// closeIdle closes what was used first, where there are too many. Their background
// commands live on.
func (b *shells) closeIdle() {
	idle := 0
	for _, s := range b.background {
		if s.calls == 0 {
			idle++
		}
	}
	b.background = slices.DeleteFunc(b.background, func(s *sideShell) bool {
		if s.calls > 0 || idle <= maxBackground {
			return false
		}
		idle--
		if err := s.close(); err != nil {
			s.log.Warn("a subagent's shell is not closed", "error", err)
		}
		return true
	})
}

// folder is the working directory of a session. One that has not begun is, like the
// agent's own before its first command, in the workspace.
func (b *shells) folder(name string) string {
	b.mu.Lock()
	of := b.own
	if name != "" {
		of = nil
		for _, s := range b.background {
			if s.name == name {
				of = s.lateShell
			}
		}
	}
	b.mu.Unlock()
	if of == nil {
		return b.own.cfg.Dir
	}
	session, err := of.get()
	if err != nil {
		return of.cfg.Dir
	}
	return session.Dir()
}

// tool is a tool of that name that acts in the session that a call names.
func (b *shells) tool(name string, of func(*shell.Session) tool.Tool) tool.Tool {
	t := of(nil)
	t.Name = name
	t.Run = func(ctx context.Context, call *agentv1.ToolCall, emit tool.Emit) tool.Outcome {
		in, done := b.use(shellOf(call))
		defer done()
		return execd.Late(name, func() (tool.Tool, error) {
			session, err := in.get()
			return of(session), err
		}).Run(ctx, call, emit)
	}
	return t
}

// shellOf is the session that a call names.
func shellOf(call *agentv1.ToolCall) string {
	return cmp.Or(call.GetShellToolCall().GetArgs().GetShell(), call.GetAwaitToolCall().GetArgs().GetShell(), call.GetWriteShellStdinToolCall().GetArgs().GetShell())
}

// setEnv exports and unsets variables in all sessions, also in those to come.
func (b *shells) setEnv(ctx context.Context, set map[string]string, unset []string) error {
	b.mu.Lock()
	for name, value := range set {
		b.set[name] = value
		delete(b.unset, name)
	}
	for _, name := range unset {
		b.unset[name] = true
		delete(b.set, name)
	}
	all := []*lateShell{b.own}
	for _, s := range b.background {
		all = append(all, s.lateShell)
	}
	b.mu.Unlock()
	var errs []error
	for _, s := range all {
		errs = append(errs, s.setEnv(ctx, set, unset))
	}
	return errors.Join(errs...)
}

// close ends all sessions. Nothing starts another of them.
func (b *shells) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	errs := []error{b.own.close()}
	for _, s := range b.background {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// lateShell is a session whose bash starts beside the server: a login profile
// may take longer to read than all the rest takes to start. Its methods are
// safe for concurrent use.
type lateShell struct {
	cfg shell.Config
	log *slog.Logger

	set   map[string]string // what it begins with, beside the daemon's environment
	unset []string          // likewise

	mu      sync.Mutex
	session *shell.Session // nil until it has started
	closed  bool
	warming sync.WaitGroup
}

func newLateShell(cfg shell.Config, log *slog.Logger) *lateShell {
	return &lateShell{cfg: cfg, log: log}
}

// warm starts the session in the background.
func (b *lateShell) warm() {
	b.warming.Go(func() {
		if _, err := b.get(); err != nil {
			b.log.Error("no shell yet; the next call of it tries again", "error", err)
		}
	})
}

// get waits for the session, or starts one.
func (b *lateShell) get() (*shell.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, shell.ErrClosed
	}
	if b.session == nil {
		session, err := shell.New(b.cfg)
		if err != nil {
			return nil, err
		}
		if err := session.Setenv(context.Background(), b.set, b.unset); err != nil {
			return nil, errors.Join(err, session.Close())
		}
		b.session = session
	}
	return b.session, nil
}

func (b *lateShell) setEnv(ctx context.Context, set map[string]string, unset []string) error {
	session, err := b.get()
	if err != nil {
		return err
	}
	return session.Setenv(ctx, set, unset)
}

// close ends the session. Nothing starts another.
func (b *lateShell) close() error {
	b.warming.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.session == nil {
		return nil
	}
	return b.session.Close()
}
