// Package execd implements exec-daemon, the server that runs an agent's tool
// calls in a machine. It runs each call exactly once, keeps the results until
// they are acknowledged, and answers the control plane's other requests about
// the machine's files. It implements no tools itself, makes no permission
// decisions, and trusts every caller that has the token.
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

	"aloft/internal/guest/editor"
	"aloft/internal/guest/guard"
	guest "aloft/internal/guest/mcp"
	"aloft/internal/guest/terminal"
	"aloft/internal/guest/tool"
	"aloft/internal/telemetry"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Limits on a caller's messages, in bytes. A file may be maxFile long; its
// message is slightly longer.
const (
	maxFile    = 64 << 20
	maxMessage = maxFile + 1<<20
)

// When the server stops, running calls get stopGrace to end, so that their
// results can be stored. Sending the results may then take sendGrace.
const (
	stopGrace = 3 * time.Second
	sendGrace = time.Second
)

// Config configures a Server. Token, Workspace and StateDir are required.
type Config struct {
	Token     string      // 64 hex digits; required of every caller
	Workspace string      // absolute; the base of relative paths
	StateDir  string      // folder of the call log; created if missing
	BootID    string      // identifies this boot of the machine; if empty, one is generated and stored in StateDir
	Version   string      // version of the binary
	Tools     []tool.Tool // tools that can be called, with unique names
	OutputDir string      // folder for results that are too long; if empty, they are truncated
	// SetEnv changes the environment of processes started from now on. If it is
	// nil, UpdateEnvironmentVariables is not implemented.
	SetEnv    func(ctx context.Context, set map[string]string, unset []string) error
	Terminals *terminal.Host // optional
	Sandbox   *guard.Sandbox // for hooks and terminals whose callers ask for it
	Servers   *guest.Manager // MCP servers; optional
	Artifacts string         // absolute; folder of files that outlive the machine; [DefaultArtifacts] by default
	// Folder returns the current folder of a shell session by its name. If it
	// is nil, hooks get the workspace.
	Folder     func(shell string) string
	Environ    []string // environment of hooks and of editor servers; by default that of this process
	Home       string   // home folder of the agent's user, where hooks are configured too
	GitGateway string   // default address of the git gateway
	// RemoteServers are the editor servers to look for; by default the
	// well-known ones.
	RemoteServers []editor.Program
	Rules         RuleFiles
	Secrets       *Secrets                // values to redact from everything that leaves the machine; optional
	Tracer        trace.Tracer            // records a span for each request and call; optional
	Meter         *telemetry.MachineMeter // counts requests and calls; optional
	Log           *slog.Logger            // optional
}

// Server implements agent.v1's ExecService, ControlService, FileService,
// TerminalService, HookService, McpService and RulesService. Its methods are safe for
// concurrent use.
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
	sandbox   *guard.Sandbox
	artifacts *artifacts
	git       *gitCredential
	remote    *editor.Server
	servers   *guest.Manager
	rules     RuleFiles
	failures  *allowance
	following sync.WaitGroup // streams that have not sent all their calls' results

	transcripts sync.Mutex // held while a transcript is written
}

// New makes a Server and restores the calls in the state folder. The caller
// must Close it.
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
		remote:    editor.New(cfg.RemoteServers, cfg.Workspace, cfg.Environ, log),
		servers:   cfg.Servers,
		rules:     cfg.Rules,
	}
	calls.hooked = s.hasHooks
	s.token.Store(&digest)
	return s, nil
}

// ServeGuarded serves next on l, for requests with the server's token only,
// until ctx ends; then it cuts the connections. It closes l.
func (s *Server) ServeGuarded(ctx context.Context, l net.Listener, next http.Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler:           s.authenticated(next),
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends WebSockets, which Close does not
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// BootID identifies this boot of the machine.
func (s *Server) BootID() string { return s.bootID }

// Handler returns the server's HTTP handler. It must be served over HTTP/2,
// because ExecStream is bidirectional.
func (s *Server) Handler() http.Handler {
	options := s.options()
	mux := http.NewServeMux()
	mux.Handle(agentv1connect.NewExecServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewControlServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewFileServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewTerminalServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewHookServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewMcpServiceHandler(s, options...))
	mux.Handle(agentv1connect.NewRulesServiceHandler(s, options...))
	mux.HandleFunc("PUT /token", s.changeToken) // used by pod-daemon
	return s.authenticated(mux)
}

// options returns the handler options of all services.
func (s *Server) options() []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(s.tracing, outgoing{s.secrets}, faults{s.log}),
		connect.WithReadMaxBytes(maxMessage),
		// Do not compress: requests never leave the host, so it would only cost
		// CPU time.
		connect.WithCompression("gzip", nil, nil),
	}
}

// Serve serves HTTP/1.1 and HTTP/2 without TLS on l until ctx ends. Then it
// stops the running calls, stores their results, and returns nil. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           s.Handler(),
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
		finishesWithin(sendGrace, s.following.Wait) // clients that are cut off here can attach again later
		_ = server.Close()
		err = <-ended
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Close stops the running calls and releases the state folder.
func (s *Server) Close() error {
	s.calls.stop(stopGrace)
	s.remote.Close()
	return s.calls.record.close()
}
