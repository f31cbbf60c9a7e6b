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

// shells are the shell sessions: the main agent's, and those of background subagents, by
// name. Methods of shells are safe for concurrent use.
type shells struct {
	own *lateShell

	mu         sync.Mutex
	closed     bool
	background []*sideShell      // the most recently used is last
	set        map[string]string // variables set since the daemon started
	unset      map[string]bool   // variables unset since the daemon started
}

// sideShell is the session of a subagent.
type sideShell struct {
	*lateShell
	name  string
	calls int // number of running calls
}

// maxBackground limits the number of idle sessions of subagents. It exceeds the number
// of subagents that can run at once.
const maxBackground = 8

func newShells(cfg shell.Config, log *slog.Logger) *shells {
	return &shells{own: newLateShell(cfg, log), set: map[string]string{}, unset: map[string]bool{}}
}

// use returns the session with that name, and keeps it open until done is called. The
// name "" means the main agent's session.
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

// closeIdle closes the least recently used sessions if there are too many.
// Their background commands keep running.
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
			s.log.Warn("cannot close a subagent's shell", "error", err)
		}
		return true
	})
}

// folder returns the working directory of a session. Before the session's first command,
// that is the workspace.
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

// tool returns a tool that acts on the session that a call names.
func (b *shells) tool(name string, of func(*shell.Session) tool.Tool) tool.Tool {
	t := of(nil)
	t.Name = name
	t.Run = func(ctx context.Context, call *agentv1.ToolCall, emit tool.Emit) tool.Outcome {
		in, done := b.use(shellOf(call))
		defer done()
		return execd.LoadLater(name, func() (tool.Tool, error) {
			session, err := in.get()
			return of(session), err
		}).Run(ctx, call, emit)
	}
	return t
}

// shellOf returns the name of the session that a call names.
func shellOf(call *agentv1.ToolCall) string {
	return cmp.Or(call.GetShellToolCall().GetArgs().GetShell(), call.GetAwaitToolCall().GetArgs().GetShell(), call.GetWriteShellStdinToolCall().GetArgs().GetShell())
}

// setEnv exports and unsets variables in all sessions, including future ones.
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

// close closes all sessions. No session can be started afterwards.
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

// lateShell is a session whose bash starts while the server is already running, since
// reading a login profile may take longer than the rest of the start. Its methods are
// safe for concurrent use.
type lateShell struct {
	cfg shell.Config
	log *slog.Logger

	set   map[string]string // initial variables, in addition to the daemon's environment
	unset []string          // variables to remove initially

	mu      sync.Mutex
	session *shell.Session // nil until the session has started
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
			b.log.Error("cannot start the shell; the next call tries again", "error", err)
		}
	})
}

// get returns the session, and starts it if necessary.
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

// close closes the session. It cannot be started again.
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
