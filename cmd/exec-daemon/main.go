// Command exec-daemon runs an agent's tool calls in its machine. See
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
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"aloft/internal/environment"
	"aloft/internal/guest/execd"
	"aloft/internal/guest/footprint"
	"aloft/internal/guest/pdf"
	"aloft/internal/guest/ripgrep"
	"aloft/internal/guest/shell"
	"aloft/internal/guest/sshd"
	"aloft/internal/guest/terminal"
	"aloft/internal/redact"
	"aloft/internal/telemetry"
)

// softMemory is the soft memory limit in bytes, above which the garbage
// collector works harder, because the machine's memory is meant for the agent's
// commands.
const softMemory = 128 << 20

// lastSend is the timeout for sending the last telemetry when the daemon stops.
const lastSend = time.Second

func main() {
	// This program also runs as the separate process that parses a PDF; see
	// internal/guest/pdf.
	if len(os.Args) > 1 && os.Args[1] == "pdf-text" {
		os.Exit(pdf.Main(os.Args[2:], os.Stdin, os.Stdout))
	}
	// It also runs as the process that searches files in a machine without rg.
	if len(os.Args) > 1 && os.Args[1] == ripgrep.Argument {
		os.Exit(ripgrep.Main(os.Args[2:], os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	footprint.Keep(ctx)
	debug.SetMemoryLimit(softMemory)
	// This process's environment contains the token. Prevent commands, which run as the
	// same user, from reading it in /proc. If the kernel does not support that, the machine
	// remains the security boundary.
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

// variables are the environment variables with which exec-daemon was started.
type variables struct {
	own   map[string]string // exec-daemon's own; commands do not inherit them
	agent []string          // NAME=value, for the agent's commands
}

// agentPrefix marks variables for the agent's commands. exec-daemon does not apply them
// to itself, so that a variable set by a branch or a secret does not affect programs
// that exec-daemon itself runs. If there are no such variables, the agent's commands get
// this process's environment.
const agentPrefix = "ALOFT_AGENT_ENV_"

// takeOut removes exec-daemon's own variables and the agent's from the environment, and
// returns them.
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
		_ = os.Unsetenv(name) // cannot fail for a variable that was set
	}
	if v.agent == nil {
		v.agent = os.Environ()
	}
	return v
}

// getenv returns one of exec-daemon's own variables, or else a variable of this
// process's environment.
func (v variables) getenv(name string) string { return cmp.Or(v.own[name], os.Getenv(name)) }

// agents returns a variable of the agent's commands.
func (v variables) agents(name string) string {
	for _, variable := range slices.Backward(v.agent) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// browsers are the commands of Chrome and Chromium, preferred ones first.
var browsers = []string{"google-chrome-stable", "google-chrome", "chromium", "chromium-browser"}

// setBrowser sets the variables that name the browser for the agent's commands: the
// browser of --chrome-executable-path or, with --browser-enabled, the first installed
// one. It does not change variables that are set already.
func (v *variables) setBrowser(cfg config) {
	path := cfg.ChromeExecutable
	for _, name := range browsers {
		if path == "" && cfg.Browser {
			path, _ = exec.LookPath(name) // "" if there is none
		}
	}
	for _, name := range environment.BrowserVariables {
		if path != "" && v.agents(name) == "" {
			v.agent = append(slices.Clone(v.agent), name+"="+path)
		}
	}
}

// run does the work of main. It takes all inputs as arguments, so that a test can run
// the whole command in its own process.
func run(ctx context.Context, args []string, given variables, stderr io.Writer) (err error) {
	getenv := given.getenv
	if len(args) == 1 && args[0] == sftpCommand {
		return sshd.ServeSFTP(standard{os.Stdin, os.Stdout})
	}
	cfg, err := parse(args, getenv, stderr)
	if err != nil {
		return err
	}
	given.setBrowser(cfg)
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
			slog.New(local).DebugContext(ctx, "cannot send the last telemetry", "error", err)
		}
	}()
	log := slog.New(sent.Handler(local))
	if short := secrets.Redactor().Short(); len(short) > 0 {
		log.WarnContext(ctx, "some secrets are too short to be redacted", "names", short, "bytes", redact.MinLength)
	}
	// Listen first, so that the process that started this one can connect at
	// once.
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
		Rules:     execd.RuleFiles{AgentFiles: cfg.ClaudeMD, CloudNotes: cfg.CloudRules},
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

// version returns the version recorded in the binary at build time.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
