package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"aloft/internal/guest/shell"
)

// Names of variables. Every flag but -p can also be given as envPrefix and its
// name in capitals: EXEC_DAEMON_LOG_LEVEL. A flag goes before a variable.
const (
	envPrefix      = "EXEC_DAEMON_"
	bootIDVariable = "ALOFT_BOOT_ID" // pod-daemon's name for this start of the machine
)

var errUsage = errors.New("usage: exec-daemon serve [flags]; exec-daemon serve --help lists them")

// config is what the command line and the environment say.
type config struct {
	Port          int    // 0 for a free one
	AuthToken     string // 64 hex digits
	AuthTokenFile string // where to read it instead
	LogLevel      slog.Level
	RgPath        string
	StateDir      string
	Workspace     string // absolute
	OutputDir     string // absolute
	BootID        string // empty to have one made
	IndexDir      string // absolute

	EmbeddingURL     string // empty for none
	EmbeddingModel   string
	EmbeddingKeyFile string
	TraceEndpoint    string // "" to send no telemetry
	TraceToken       string
	TraceInsecure    bool
	GhostMode        bool
	Redact           bool // keep the secrets that the environment names in the machine
}

// parse reads the configuration. What is wrong in it wraps errUsage.
func parse(args []string, getenv func(string) string, stderr io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("exec-daemon serve", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&c.Port, "port", 26053, "`port` on 127.0.0.1 to serve on; 0 for a free one, which the log names")
	flags.IntVar(&c.Port, "p", 26053, "short for --port")
	flags.StringVar(&c.AuthToken, "auth-token", "", "`token` of 64 hex digits that callers must show; better given as "+envPrefix+"AUTH_TOKEN, which ps does not show")
	flags.StringVar(&c.AuthTokenFile, "auth-token-file", "", "`file` that holds the token")
	flags.TextVar(&c.LogLevel, "log-level", slog.LevelInfo, "`level` to log from: debug, info, warn or error")
	flags.StringVar(&c.RgPath, "rg-path", "rg", "`path` of ripgrep")
	flags.StringVar(&c.StateDir, "state-dir", "/run/aloft/exec", "`folder` that remembers calls over a restart")
	flags.StringVar(&c.Workspace, "workspace", "/workspace", "absolute `path` of the folder where the agent works")
	flags.StringVar(&c.OutputDir, "output-dir", shell.DefaultOutputDir, "`folder` for output of commands that is too long for a result")
	flags.StringVar(&c.IndexDir, "index-dir", "/tmp/aloft/index", "`folder` for the index of SemSearch")
	flags.StringVar(&c.EmbeddingURL, "embedding-url", "", "`address` up to /v1 of an OpenAI-compatible endpoint that helps SemSearch to rank; without it nothing is sent anywhere")
	flags.StringVar(&c.EmbeddingModel, "embedding-model", "", "`name` of the model there")
	flags.StringVar(&c.EmbeddingKeyFile, "embedding-key-file", "", "`file` that holds the key for it")
	flags.StringVar(&c.BootID, "boot-id", getenv(bootIDVariable), "`id` of this start of the machine; also "+bootIDVariable+". Without it one is made and kept in the state folder")
	flags.BoolVar(&c.Redact, "secret-redaction-enabled", false, "replace the values of the variables that CLOUD_AGENT_INJECTED_SECRET_NAMES or CURSOR_AGENT_INJECTED_SECRET_NAMES name, separated by commas, by [REDACTED] in what leaves the machine")
	flags.StringVar(&c.TraceEndpoint, "trace-endpoint", "", "`URL` of an OpenTelemetry receiver (OTLP over gRPC) that gets traces and logs; only without ghost mode")
	flags.StringVar(&c.TraceToken, "trace-auth-token", "", "`token` for that receiver; better given as "+envPrefix+"TRACE_AUTH_TOKEN, which ps does not show")
	flags.BoolVar(&c.TraceInsecure, "trace-insecure", false, "speak with that receiver without TLS")
	flags.BoolVar(&c.GhostMode, "ghost-mode", true, "send no telemetry, whatever the other flags say; --ghost-mode=false to send it")

	args = joinGhostMode(args)
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
		flags.Usage()
		return config{}, flag.ErrHelp
	}
	if len(args) == 0 || args[0] != "serve" {
		return config{}, errUsage
	}
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return config{}, err
	} else if err != nil {
		return config{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("%w: %q is not a flag", errUsage, flags.Arg(0))
	}
	if err := fromEnvironment(flags, getenv); err != nil {
		return config{}, err
	}
	return c, c.check()
}

// joinGhostMode makes "--ghost-mode false" one argument, as it is written for the
// product that Aloft follows: the flag package takes a boolean's value only
// after an equals sign.
func joinGhostMode(args []string) []string {
	var joined []string
	for _, arg := range args {
		if n := len(joined); n > 0 && strings.TrimLeft(joined[n-1], "-") == "ghost-mode" && (arg == "true" || arg == "false") {
			joined[n-1] += "=" + arg
			continue
		}
		joined = append(joined, arg)
	}
	return joined
}

// fromEnvironment sets the flags that were not given from their variables.
func fromEnvironment(flags *flag.FlagSet, getenv func(string) string) error {
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	given["port"] = given["port"] || given["p"]
	var wrong error
	flags.VisitAll(func(f *flag.Flag) {
		name := variable(f.Name)
		value := getenv(name)
		if given[f.Name] || f.Name == "p" || value == "" {
			return
		}
		if err := f.Value.Set(value); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%w: %s: %w", errUsage, name, err))
		}
	})
	return wrong
}

// variable is the environment's name for a flag.
func variable(flagName string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// check completes the configuration and finds what is wrong in it.
func (c *config) check() error {
	if c.AuthToken == "" && c.AuthTokenFile != "" {
		b, err := os.ReadFile(c.AuthTokenFile)
		if err != nil {
			return fmt.Errorf("%w: the token's file: %w", errUsage, err)
		}
		c.AuthToken = strings.TrimSpace(string(b))
	}
	switch {
	case c.AuthToken == "":
		return fmt.Errorf("%w: no token: give %s, --auth-token-file or --auth-token", errUsage, variable("auth-token"))
	case c.Port < 0 || c.Port > 65535:
		return fmt.Errorf("%w: there is no port %d", errUsage, c.Port)
	case !filepath.IsAbs(c.Workspace):
		return fmt.Errorf("%w: the workspace %q must be an absolute path", errUsage, c.Workspace)
	case !filepath.IsAbs(c.OutputDir):
		return fmt.Errorf("%w: the output folder %q must be an absolute path", errUsage, c.OutputDir)
	case !filepath.IsAbs(c.IndexDir):
		return fmt.Errorf("%w: the index folder %q must be an absolute path", errUsage, c.IndexDir)
	case (c.EmbeddingURL == "") != (c.EmbeddingModel == ""):
		return fmt.Errorf("%w: --embedding-url and --embedding-model go together", errUsage)
	case !filepath.IsAbs(c.StateDir):
		return fmt.Errorf("%w: the state folder %q must be an absolute path", errUsage, c.StateDir)
	}
	return nil
}
