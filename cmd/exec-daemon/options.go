package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"aloft/internal/guest/execd"
	"aloft/internal/guest/shell"
)

// An option is a flag of serve. docs/reference/exec-daemon.md is generated from the
// table of options, and a test compares each row with the running daemon.
type option struct {
	name     string
	kind     kind
	standard string // the default value
	words    string
	refused  string            // why only the standard value is accepted; "" if others are, too
	ours     bool              // not an option of the product that Aloft follows
	target   func(*config) any // *int, *string, *bool or *slog.Level
}

// kind is the type of an option's value.
type kind string

const (
	kindPort   kind = "port"
	kindString kind = "string"
	kindBool   kind = "bool"
	kindLevel  kind = "level"
	kindJSON   kind = "JSON"
	kindPath   kind = "path"
	kindURL    kind = "URL"
)

// options are all flags, in the order of the reference.
var options = []option{
	{name: "port", kind: kindPort, standard: "8080", words: "HTTP port on 127.0.0.1, also -p; 0 selects a free port, which is logged",
		target: func(c *config) any { return &c.Port }},
	{name: "pty-websocket-port", kind: kindPort, standard: "8081", words: "port on 127.0.0.1 for PTYs over WebSockets; 0 selects a free port, which is logged",
		target: func(c *config) any { return &c.PTYPort }},
	{name: "auth-token", kind: kindString, words: "64 hex digits that callers must present; required. Prefer " + envPrefix + "AUTH_TOKEN, which ps does not show",
		target: func(c *config) any { return &c.AuthToken }},
	{name: "log-level", kind: kindLevel, standard: "info", words: "lowest level to log: debug, info, warn or error",
		target: func(c *config) any { return &c.LogLevel }},
	{name: "rg-path", kind: kindPath, standard: "rg", words: "path of ripgrep; if it does not exist, exec-daemon uses its own search, which is slower",
		target: func(c *config) any { return &c.RgPath }},
	{name: "browser-enabled", kind: kindBool, standard: "false", words: "tell the agent's commands the browser, in CHROME_PATH, PUPPETEER_EXECUTABLE_PATH and CHROME_EXECUTABLE_PATH; needs --computer-use-enabled",
		target: func(c *config) any { return &c.Browser }},
	{name: "cursor-self-control-enabled", kind: kindBool, standard: "false", words: "let the agent control its own editor", refused: "--computer-use-enabled has replaced it",
		target: func(c *config) any { return &c.CursorSelfControl }},
	{name: "mcp-config", kind: kindJSON, words: "MCP servers, in the format of mcp.json; programs among them run until a caller selects others",
		target: func(c *config) any { return &c.MCPConfig }},
	{name: "mcp-oauth-server-urls", kind: kindJSON, words: "MCP servers that need a sign-in", refused: "the control plane signs in to MCP servers, so that no token enters a machine: configure them there",
		target: func(c *config) any { return &c.MCPOAuthServerURLs }},
	{name: "http-mcp-tools-file", kind: kindPath, words: "file with a JSON list of the tools of MCP servers that the control plane calls: {server, tools: [{name, description, arguments}]}; they are listed, and refused here",
		target: func(c *config) any { return &c.HTTPMCPToolsFile }},
	{name: "cloud-rules-enabled", kind: kindBool, standard: "false", words: "include the section of AGENTS.md and CLAUDE.md that is only for background agents: \"Cursor Cloud specific instructions\"",
		target: func(c *config) any { return &c.CloudRules }},
	{name: "computer-use-enabled", kind: kindBool, standard: "false", words: "let the agent use the desktop at DISPLAY",
		target: func(c *config) any { return &c.ComputerUse }},
	{name: "secret-redaction-enabled", kind: kindBool, standard: "false", words: "replace the values of the variables listed in CLOUD_AGENT_INJECTED_SECRET_NAMES or CURSOR_AGENT_INJECTED_SECRET_NAMES (separated by commas) by [REDACTED] in all output",
		target: func(c *config) any { return &c.Redact }},
	{name: "chrome-executable-path", kind: kindPath, words: "the browser in these variables; default with --browser-enabled: the installed Chrome or Chromium",
		target: func(c *config) any { return &c.ChromeExecutable }},
	{name: "record-screen-enabled", kind: kindBool, standard: "false", words: "let the agent record the desktop, if DISPLAY is set and ffmpeg is installed",
		target: func(c *config) any { return &c.RecordScreen }},
	{name: "generate-image-enabled", kind: kindBool, standard: "false", words: "save images that the control plane gets from an image model",
		target: func(c *config) any { return &c.GenerateImage }},
	{name: "sandbox-enabled", kind: kindBool, standard: "false", words: "run commands of Shell, and Grep, in the sandbox unless the call disables it",
		target: func(c *config) any { return &c.Sandbox }},
	{name: "sandbox-helper-path", kind: kindPath, words: "the sandbox program; default sandbox in the folder of exec-daemon",
		target: func(c *config) any { return &c.SandboxHelper }},
	{name: "claude-md-enabled", kind: kindBool, standard: "true", words: "read AGENTS.md and CLAUDE.md when a caller asks for the rules of a folder",
		target: func(c *config) any { return &c.ClaudeMD }},
	{name: "trace-endpoint", kind: kindURL, words: "OpenTelemetry receiver (OTLP over gRPC) for traces, metrics and logs; unused in ghost mode",
		target: func(c *config) any { return &c.TraceEndpoint }},
	{name: "trace-auth-token", kind: kindString, words: "token for that receiver; prefer " + envPrefix + "TRACE_AUTH_TOKEN, which ps does not show",
		target: func(c *config) any { return &c.TraceToken }},
	{name: "ghost-mode", kind: kindBool, standard: "true", words: "send no telemetry, whatever the other flags say; set false to send it",
		target: func(c *config) any { return &c.GhostMode }},
	{name: "trace-insecure", kind: kindBool, standard: "false", words: "connect to that receiver without TLS",
		target: func(c *config) any { return &c.TraceInsecure }},

	{name: "auth-token-file", kind: kindPath, words: "file that contains the token", ours: true,
		target: func(c *config) any { return &c.AuthTokenFile }},
	{name: "state-dir", kind: kindPath, standard: "/run/aloft/exec", words: "folder for the records of calls, which survive a restart", ours: true,
		target: func(c *config) any { return &c.StateDir }},
	{name: "workspace", kind: kindPath, standard: "/workspace", words: "folder where the agent works", ours: true,
		target: func(c *config) any { return &c.Workspace }},
	{name: "output-dir", kind: kindPath, standard: shell.DefaultOutputDir, words: "folder for command output that is too long for a result", ours: true,
		target: func(c *config) any { return &c.OutputDir }},
	{name: "artifacts-dir", kind: kindPath, standard: execd.DefaultArtifacts, words: "folder of files that the server copies before the machine is removed", ours: true,
		target: func(c *config) any { return &c.ArtifactsDir }},
	{name: "tmux-socket", kind: kindPath, words: "socket of the terminals' tmux server; default in the state folder", ours: true,
		target: func(c *config) any { return &c.TmuxSocket }},
	{name: "tmux-kept", kind: kindBool, standard: "false", words: "another process runs that server: do not start one", ours: true,
		target: func(c *config) any { return &c.TmuxKept }},
	{name: "index-dir", kind: kindPath, standard: "/tmp/aloft/index", words: "folder for the index of SemSearch", ours: true,
		target: func(c *config) any { return &c.IndexDir }},
	{name: "recording-dir", kind: kindPath, standard: "/tmp/aloft/recording", words: "folder for recordings until they are saved as artifacts", ours: true,
		target: func(c *config) any { return &c.RecordingDir }},
	{name: "embedding-url", kind: kindString, words: "base URL, up to /v1, of an OpenAI-compatible endpoint that SemSearch uses for ranking; without it nothing is sent", ours: true,
		target: func(c *config) any { return &c.EmbeddingURL }},
	{name: "embedding-model", kind: kindString, words: "the model at that endpoint", ours: true,
		target: func(c *config) any { return &c.EmbeddingModel }},
	{name: "embedding-key-file", kind: kindPath, words: "file that contains the key for that endpoint", ours: true,
		target: func(c *config) any { return &c.EmbeddingKeyFile }},
	{name: "boot-id", kind: kindString, words: "id of this boot of the machine, also " + bootIDVariable + "; by default generated and stored in the state folder", ours: true,
		target: func(c *config) any { return &c.BootID }},
}

// usage returns the option's line in the help.
func (o option) usage() string {
	s := "`" + string(o.kind) + "`: " + o.words
	if o.kind == kindBool {
		s = o.words
	}
	if o.refused != "" {
		s += " (refused: " + o.refused + ")"
	}
	return s
}

// add makes the option a flag.
func (o option) add(flags *flag.FlagSet, c *config) {
	switch at := o.target(c).(type) {
	case *int:
		n, _ := strconv.Atoi(o.standard) // standard is from the table, so it is valid
		flags.IntVar(at, o.name, n, o.usage())
	case *bool:
		flags.BoolVar(at, o.name, o.standard == "true", o.usage())
		if o.name == "claude-md-enabled" {
			flags.BoolFunc("no-claude-md-enabled", "do not", func(s string) error {
				not, err := strconv.ParseBool(s)
				*at = !not
				return err
			})
		}
	case *slog.Level:
		flags.TextVar(at, o.name, slog.LevelInfo, o.usage())
	case *string:
		flags.StringVar(at, o.name, o.standard, o.usage())
	}
}

// check validates the value.
func (o option) check(c *config) error {
	switch at := o.target(c).(type) {
	case *bool:
		if o.refused != "" && *at != (o.standard == "true") {
			return errors.New(o.refused)
		}
	case *int:
		if *at < 0 || *at > 65535 {
			return fmt.Errorf("%d is not a valid port", *at)
		}
	case *string:
		switch {
		case *at == "":
		case o.refused != "":
			return errors.New(o.refused)
		case o.kind == kindJSON && !json.Valid([]byte(*at)):
			return errors.New("not valid JSON") // do not repeat the value, which may contain secrets
		case o.kind == kindURL:
			if u, err := url.Parse(*at); err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) {
				return errors.New("not a valid server URL")
			}
		}
	}
	return nil
}

// joinBools allows the value of a switch as a separate argument: --ghost-mode
// false.
func joinBools(args []string, flags *flag.FlagSet) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(joined, args[i:]...)
		}
		name := strings.TrimLeft(arg, "-")
		f := flags.Lookup(name)
		if f == nil || name == arg {
			joined = append(joined, arg)
			continue
		}
		b, ok := f.Value.(interface{ IsBoolFlag() bool })
		if i+1 == len(args) {
			return append(joined, arg)
		}
		switch next := args[i+1]; {
		case !ok || !b.IsBoolFlag():
			joined = append(joined, arg, next) // even if next looks like a flag
			i++
		case next == "true" || next == "false":
			joined = append(joined, arg+"="+next)
			i++
		default:
			joined = append(joined, arg)
		}
	}
	return joined
}

// reference returns the text of docs/reference/exec-daemon.md.
func reference() string {
	var b strings.Builder
	b.WriteString("# exec-daemon\n\n" +
		"`exec-daemon serve` runs an agent's tool calls. pod-daemon starts it in every machine, on ports 26053 and 26054.\n" +
		"It also runs alone: `EXEC_DAEMON_AUTH_TOKEN=$(openssl rand -hex 32) exec-daemon serve --workspace \"$PWD\" --state-dir /tmp/exec`.\n\n" +
		"Every flag can also be set by a variable: `--log-level` is `" + variable("log-level") + "`. A flag overrides a variable.\n" +
		"A boolean flag may have its value as the next argument: `--ghost-mode false`.\n\n" +
		"This page is generated from the table in `cmd/exec-daemon/options.go`: `go test ./cmd/exec-daemon -run Reference -update`.\n")
	for _, ours := range []bool{false, true} {
		if ours {
			b.WriteString("\n## Only in Aloft\n")
		}
		b.WriteString("\n| flag | value | default | what it does |\n|---|---|---|---|\n")
		for _, o := range options {
			if o.ours != ours {
				continue
			}
			words := o.words
			if o.refused != "" {
				words += ". **Refused at start**, unless it is " + cmp.Or(o.standard, "empty") + ": " + o.refused
			}
			standard := cmp.Or(o.standard, "–")
			if o.standard != "" {
				standard = "`" + standard + "`"
			}
			fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", o.name, o.kind, standard, words)
		}
	}
	return b.String()
}
