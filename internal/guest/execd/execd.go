// Package execd is exec-daemon: the server that works an agent's tool calls in
// a machine. It makes each call exactly once, keeps the results until they are
// acknowledged, and answers the control plane's other questions about the
// machine's files. It holds no tool itself, judges no permission, and trusts
// its caller only as far as the caller's token goes.
package execd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"

	guest "aloft/internal/guest/mcp"
	"aloft/internal/guest/terminal"
	"aloft/internal/guest/tool"
	"aloft/internal/telemetry"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Limits on what a caller may send, in bytes. A file may be maxFile long; its
// message is a little longer.
const (
	maxFile    = 64 << 20
	maxMessage = maxFile + 1<<20
)

// Once the server is told to stop, stopGrace is how long running calls may take
// to end, so that their results are kept, and sendGrace how long the results may
// take to go out.
const (
	stopGrace = 3 * time.Second
	sendGrace = time.Second
)

// Config is what a Server is made of. Token, Workspace and StateDir are needed.
type Config struct {
	Token     string      // 64 hex digits; asked of every caller
	Workspace string      // absolute; where relative paths begin
	StateDir  string      // holds the call log; made if it is not there
	BootID    string      // names this start of the machine; without it, one is made and kept in StateDir
	Version   string      // of the binary
	Tools     []tool.Tool // what may be called; names are unique
	OutputDir string      // for results that are too long; without it, their middle is lost
	// SetEnv changes what processes started from now on see. Without it
	// UpdateEnvironmentVariables is not implemented.
	SetEnv    func(ctx context.Context, set map[string]string, unset []string) error
	Terminals *terminal.Host // without it there are none
	Sandbox   *tool.Sandbox  // around hooks and terminals whose callers ask for it
	Servers   *guest.Manager // of MCP; without it there are none
	Artifacts string         // absolute; the folder of files that outlive the machine; [DefaultArtifacts] without it
	// Folder returns the working directory of a shell, by its name; the workspace is
	// said without it.
	Folder     func(shell string) string
	Environ    []string // of hooks and of programs for editors; this process's own without it
	Home       string   // the folder of the agent's user; hooks are read there too
	GitGateway string   // where git reaches the gateway, unless a caller says otherwise
	// RemoteServers are programs for editors, and where they may be; those that
	// are usual without it.
	RemoteServers []RemoteServer
	Secrets       *Secrets                // what does not leave the machine; without it, all does
	Tracer        trace.Tracer            // makes a span of each request and call; without it, none is made
	Meter         *telemetry.MachineMeter // counts requests and calls; without it, nobody does
	Log           *slog.Logger            // without it, nothing is logged
}

// Server answers agent.v1.ExecService, ControlService, FileService,
// TerminalService, HookService and McpService. Its methods are safe for concurrent use.
type Server struct {
	token     atomic.Pointer[[32]byte] // SHA-256 of the token
	workspace string
	home      string
	environ   []string
	folder    func(shell string) string
	bootID    string
	version   string
	setEnv    func(ctx context.Context, set map[string]string, unset []string) error
	secrets   *Secrets
	tracing   *tracing
	log       *slog.Logger
	calls     *calls
	terminals *terminal.Host
	sandbox   *tool.Sandbox
	artifacts *artifacts
	git       *gitCredential
	remote    *remoteAccess
	servers   *guest.Manager
	failures  *allowance
	following sync.WaitGroup // streams that still have a call to tell of

	transcripts sync.Mutex // held while one is written
}

// New makes a Server and reads what an earlier one left in the state folder.
// Close it when done.
func New(cfg Config) (*Server, error) {
	if cfg.Environ == nil {
		cfg.Environ = os.Environ()
	}
	digest, err := tokenDigest(cfg.Token)
	if err != nil {
		return nil, err
	}
	log := cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	record, err := openCallLog(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	bootID, err := keepBootID(cfg.StateDir, cfg.BootID)
	if err != nil {
		return nil, errors.Join(err, record.close())
	}
	tracing := newTracing(cfg.Tracer, cfg.Meter)
	calls, err := newCalls(record, cfg.Tools, cfg.OutputDir, cfg.Secrets, log, tracing)
	if err != nil {
		return nil, errors.Join(err, record.close())
	}
	s := &Server{
		workspace: cfg.Workspace, home: cfg.Home, environ: cfg.Environ, folder: cfg.Folder, bootID: bootID, version: cfg.Version,
		setEnv: cfg.SetEnv, secrets: cfg.Secrets, tracing: tracing, log: log, calls: calls, failures: newAllowance(failuresPerSecond, time.Second),
		terminals: cmp.Or(cfg.Terminals, terminal.New(terminal.Config{Dir: cfg.Workspace})),
		sandbox:   cfg.Sandbox,
		artifacts: newArtifacts(cmp.Or(cfg.Artifacts, DefaultArtifacts)),
		git:       &gitCredential{file: filepath.Join(cfg.StateDir, "git-credential"), gateway: cmp.Or(cfg.GitGateway, defaultGateway)},
		remote:    newRemoteAccess(cfg.RemoteServers, cfg.Workspace, cfg.Environ, log),
		servers:   cfg.Servers,
	}
	s.token.Store(&digest)
	return s, nil
}

// ServeGuarded answers on l with next, for requests with the server's token
// only, until ctx ends; connections are cut then. It closes l.
func (s *Server) ServeGuarded(ctx context.Context, l net.Listener, next http.Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler:           s.authenticated(next),
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // WebSockets heed nothing else
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// BootID names this start of the machine.
func (s *Server) BootID() string { return s.bootID }

// Handler returns the whole server as one handler. It is to be served over
// HTTP/2, without which ExecStream cannot work.
func (s *Server) Handler() http.Handler {
	options := s.options(maxMessage)
	mux := http.NewServeMux()
	mux.Handle(agentv1connect.NewExecServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewControlServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewFileServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewTerminalServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewHookServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewMcpServiceHandler(s, options...))
	mux.HandleFunc("PUT /token", s.changeToken) // for pod-daemon
	return s.authenticated(mux)
}

// options are those of every service: limit bounds one message, in bytes.
func (s *Server) options(limit int) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(s.tracing, leaving{s.secrets}, faults{s.log}),
		connect.WithReadMaxBytes(limit),
		// Nothing leaves the host on its way here, so compression would only cost.
		connect.WithCompression("gzip", nil, nil),
	}
}

// Serve answers on l, in HTTP/1.1 and in HTTP/2 without TLS, until ctx ends.
// Then it stops the running calls, keeps their results, and returns nil. It
// closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, l, s.Handler())
}

func (s *Server) serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           handler,
		Protocols:         &protocols,
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		s.calls.stop(stopGrace)
		within(sendGrace, s.following.Wait) // who is cut off here attaches again later
		_ = server.Close()
		err = <-ended
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Close stops the running calls and lets go of the state folder.
func (s *Server) Close() error {
	s.calls.stop(stopGrace)
	s.remote.close()
	return s.calls.record.close()
}
