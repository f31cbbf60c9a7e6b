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
)

// Names of environment variables. Every flag except -p can also be set by a variable:
// envPrefix followed by the flag's name in capitals, such as EXEC_DAEMON_LOG_LEVEL.
// Flags take precedence.
const (
	envPrefix      = "EXEC_DAEMON_"
	bootIDVariable = "ALOFT_BOOT_ID" // set by pod-daemon to identify this boot of the machine
)

var errUsage = errors.New("usage: exec-daemon serve [flags]; exec-daemon serve --help lists them")

// config is the configuration from flags and the environment. Fields for options that
// are always refused are unused.
type config struct {
	Port          int    // 0 for any free port
	PTYPort       int    // 0 for any free port
	AuthToken     string // 64 hex digits
	AuthTokenFile string // file from which to read the token instead
	LogLevel      slog.Level
	RgPath        string

	Browser            bool
	CursorSelfControl  bool
	MCPConfig          string // JSON
	MCPOAuthServerURLs string // JSON
	HTTPMCPToolsFile   string
	CloudRules         bool
	ComputerUse        bool
	Redact             bool // redact these secrets from the machine's output
	ChromeExecutable   string
	RecordScreen       bool
	GenerateImage      bool
	Sandbox            bool
	SandboxHelper      string
	ClaudeMD           bool
	TraceEndpoint      string
	TraceToken         string
	GhostMode          bool
	TraceInsecure      bool

	StateDir     string // absolute
	Workspace    string // absolute
	OutputDir    string // absolute
	ArtifactsDir string // absolute
	TmuxSocket   string // absolute
	TmuxKept     bool
	BootID       string // generated if empty
	IndexDir     string // absolute
	RecordingDir string // absolute

	EmbeddingURL     string // empty for none
	EmbeddingModel   string
	EmbeddingKeyFile string
}

// parse reads the configuration. Errors wrap errUsage.
func parse(args []string, getenv func(string) string, stderr io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("exec-daemon serve", flag.ContinueOnError)
	flags.SetOutput(stderr)
	for _, o := range options {
		o.add(flags, &c)
	}
	flags.IntVar(&c.Port, "p", c.Port, "short for --port")
	c.BootID = getenv(bootIDVariable)

	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
		flags.Usage()
		return config{}, flag.ErrHelp
	}
	if len(args) == 0 || args[0] != "serve" {
		return config{}, errUsage
	}
	if err := flags.Parse(joinBools(args[1:], flags)); errors.Is(err, flag.ErrHelp) {
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

// fromEnvironment sets flags that were not given from their environment
// variables.
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

// variable returns the name of a flag's environment variable.
func variable(flagName string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// check completes and validates the configuration.
func (c *config) check() error {
	if c.AuthToken == "" && c.AuthTokenFile != "" {
		b, err := os.ReadFile(c.AuthTokenFile)
		if err != nil {
			return fmt.Errorf("%w: --auth-token-file: %w", errUsage, err)
		}
		c.AuthToken = strings.TrimSpace(string(b))
	}
	for _, o := range options {
		if err := o.check(c); err != nil {
			return fmt.Errorf("%w: --%s: %w", errUsage, o.name, err)
		}
	}
	if c.TmuxSocket == "" {
		c.TmuxSocket = filepath.Join(c.StateDir, "tmux")
	}
	if c.SandboxHelper == "" {
		if self, err := os.Executable(); err == nil {
			c.SandboxHelper = filepath.Join(filepath.Dir(self), "sandbox")
		}
	}
	switch {
	case c.AuthToken == "":
		return fmt.Errorf("%w: no token: set %s, --auth-token-file or --auth-token", errUsage, variable("auth-token"))
	case c.Browser && !c.ComputerUse:
		return fmt.Errorf("%w: --browser-enabled: needs --computer-use-enabled, because the agent controls the browser through the desktop", errUsage)
	case !filepath.IsAbs(c.Workspace):
		return fmt.Errorf("%w: the workspace %q must be an absolute path", errUsage, c.Workspace)
	case !filepath.IsAbs(c.OutputDir):
		return fmt.Errorf("%w: the output folder %q must be an absolute path", errUsage, c.OutputDir)
	case !filepath.IsAbs(c.StateDir):
		return fmt.Errorf("%w: the state folder %q must be an absolute path", errUsage, c.StateDir)
	case !filepath.IsAbs(c.ArtifactsDir), !filepath.IsAbs(c.TmuxSocket):
		return fmt.Errorf("%w: the artifacts folder and the tmux socket must be absolute paths", errUsage)
	case !filepath.IsAbs(c.IndexDir):
		return fmt.Errorf("%w: the index folder %q must be an absolute path", errUsage, c.IndexDir)
	case !filepath.IsAbs(c.RecordingDir):
		return fmt.Errorf("%w: the recordings folder %q must be an absolute path", errUsage, c.RecordingDir)
	case (c.EmbeddingURL == "") != (c.EmbeddingModel == ""):
		return fmt.Errorf("%w: set both --embedding-url and --embedding-model, or neither", errUsage)
	}
	return nil
}
