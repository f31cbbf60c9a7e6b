// Command exec-daemon works an agent's tool calls in its machine. See
// internal/guest/execd.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"aloft/internal/guest/execd"
	"aloft/internal/guest/footprint"
	"aloft/internal/guest/pdf"
	"aloft/internal/guest/shell"
	"aloft/internal/guest/sshd"
	"aloft/internal/guest/terminal"
	"aloft/internal/redact"
	"aloft/internal/telemetry"
)

// softMemory, in bytes, is where the collector starts to work harder: the
// machine's memory is for the agent's commands.
const softMemory = 128 << 20

// lastSend is how long the last telemetry may take when the daemon stops.
const lastSend = time.Second

func main() {
	// This program is also the process in which a PDF is read; see internal/guest/pdf.
	if len(os.Args) > 1 && os.Args[1] == "pdf-text" {
		os.Exit(pdf.Main(os.Args[2:], os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	footprint.Keep(ctx)
	debug.SetMemoryLimit(softMemory)
	// The environment that this process was given holds the token. Commands run
	// as the same user; this keeps them from reading it in /proc. It fails only
	// where there is no such call, and then the machine is still the boundary.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	err := run(ctx, os.Args[1:], takeOut(), os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "exec-daemon:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "exec-daemon:", err)
		os.Exit(1)
	}
}

// variables are those that exec-daemon was started with.
type variables struct {
	own   map[string]string // exec-daemon's: no command inherits them
	agent []string          // NAME=value, of the agent's commands
}

// agentPrefix begins the names of variables that are the agent's and not
// exec-daemon's: what a branch or a secret sets changes nothing that exec-daemon
// itself runs. Without any, the agent's commands have this process's own.
const agentPrefix = "ALOFT_AGENT_ENV_"

// takeOut takes exec-daemon's own variables and the agent's out of the environment.
func takeOut() variables {
	v := variables{own: make(map[string]string)}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		agents, isAgents := strings.CutPrefix(variable, agentPrefix)
		switch {
		case isAgents:
			v.agent = append(v.agent, agents)
		case name == bootIDVariable || strings.HasPrefix(name, envPrefix):
			v.own[name] = value
		default:
			continue
		}
		_ = os.Unsetenv(name) // a name that was there can be unset
	}
	if v.agent == nil {
		v.agent = os.Environ()
	}
	return v
}

// getenv knows exec-daemon's own variables, and what it runs its programs with.
func (v variables) getenv(name string) string { return cmp.Or(v.own[name], os.Getenv(name)) }

// agents is a variable of the agent's commands.
func (v variables) agents(name string) string {
	for _, variable := range slices.Backward(v.agent) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// run is main without the process: everything it needs is an argument, so a
// test can run the whole command in place.
func run(ctx context.Context, args []string, given variables, stderr io.Writer) (err error) {
	getenv := given.getenv
	if len(args) == 1 && args[0] == sftpCommand {
		return sshd.ServeSFTP(standard{os.Stdin, os.Stdout})
	}
	cfg, err := parse(args, getenv, stderr)
	if err != nil {
		return err
	}
	var secrets *execd.Secrets
	if cfg.Redact {
		secrets = execd.NewSecrets(given.agents)
	}
	local := slog.NewJSONHandler(secrets.Writer(stderr), &slog.HandlerOptions{Level: cfg.LogLevel})
	sent, err := telemetry.Open(telemetry.Config{
		Ghost: cfg.GhostMode, Endpoint: cfg.TraceEndpoint, Token: cfg.TraceToken, Insecure: cfg.TraceInsecure,
		Service: "exec-daemon", Soon: true, Version: version(), Logger: slog.New(local),
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	meter, err := sent.NewMachineMeter()
	if err != nil {
		return err
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSend)
		defer cancel()
		if err := errors.Join(meter.Shutdown(last), sent.Shutdown(last)); err != nil {
			slog.New(local).DebugContext(ctx, "the last telemetry was not sent", "error", err)
		}
	}()
	log := slog.New(sent.Handler(local))
	if short := secrets.Redactor().Short(); len(short) > 0 {
		log.WarnContext(ctx, "secrets that are too short to be redacted", "names", short, "bytes", redact.MinLength)
	}
	// First of all, so that whoever started this can connect at once.
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.Port)))
	if err != nil {
		return err
	}
	ptyListener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(cfg.PTYPort)))
	if err != nil {
		return errors.Join(err, l.Close())
	}
	bash := newShells(shell.Config{Dir: cfg.Workspace, Env: given.agent, OutputDir: cfg.OutputDir}, log)
	defer func() { err = errors.Join(err, bash.close()) }()
	terminals := terminal.New(terminal.Config{
		Dir: cfg.Workspace, Environ: given.agent, Shell: os.Getenv("SHELL"), Log: log, Secrets: secrets.Redactor,
		Terminals: &terminal.Tmux{Socket: cfg.TmuxSocket, Dir: cfg.Workspace, Kept: cfg.TmuxKept},
	})
	defer func() { err = errors.Join(err, terminals.Close()) }()
	kept, err := newSkills(cfg, given.agent, log, serversOf(cfg, terminals.Environ, getenv("HOME"), secrets, log))
	if err != nil {
		return errors.Join(err, l.Close(), ptyListener.Close())
	}
	defer func() { err = errors.Join(err, kept.close()) }()
	server, err := execd.New(execd.Config{
		Token:     cfg.AuthToken,
		Workspace: cfg.Workspace,
		Home:      getenv("HOME"),
		Environ:   given.agent,
		Folder:    bash.folder,
		StateDir:  cfg.StateDir,
		BootID:    cfg.BootID,
		Version:   version(),
		Tools:     tools(cfg, bash, kept),
		OutputDir: cfg.OutputDir,
		SetEnv: func(ctx context.Context, set map[string]string, unset []string) error {
			terminals.Setenv(set, unset)
			return bash.setEnv(ctx, set, unset)
		},
		Terminals: terminals,
		Sandbox:   sandboxOf(cfg),
		Servers:   kept.servers,
		Artifacts: cfg.ArtifactsDir,
		Secrets:   secrets,
		Tracer:    sent.Tracer(),
		Meter:     meter,
		Log:       log,
	})
	if err != nil {
		return errors.Join(err, l.Close(), ptyListener.Close())
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	bash.own.warm()
	if err := useServers(cfg, kept.servers, log); err != nil {
		return errors.Join(err, l.Close(), ptyListener.Close())
	}
	defer serveSSH(ctx, cfg, terminals.Environ, secrets, log)()
	log.InfoContext(ctx, "listening", "addr", l.Addr().String(), "pty", ptyListener.Addr().String(),
		"workspace", cfg.Workspace, "boot", server.BootID())
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return server.Serve(ctx, l) })
	both.Go(func() error { return server.ServeGuarded(ctx, ptyListener, terminals.Handler()) })
	return both.Wait()
}

// version is the binary's, as its builder recorded it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
