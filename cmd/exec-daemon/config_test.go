package main

import (
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// full gives every flag a value, which differs from the default if possible.
var full = map[string]string{
	"port": "1234", "pty-websocket-port": "1235", "auth-token": token, "auth-token-file": "/nowhere", "log-level": "debug", "rg-path": "/rg",
	"browser-enabled": "true", "cursor-self-control-enabled": "false", "mcp-config": `{"a":1}`, "mcp-oauth-server-urls": "",
	"http-mcp-tools-file": "/tools", "cloud-rules-enabled": "false", "computer-use-enabled": "true", "secret-redaction-enabled": "true",
	"chrome-executable-path": "", "record-screen-enabled": "true", "generate-image-enabled": "true", "sandbox-enabled": "true",
	"sandbox-helper-path": "/sandbox", "claude-md-enabled": "true", "trace-endpoint": "https://t", "trace-auth-token": "tt", "ghost-mode": "false",
	"trace-insecure": "true", "state-dir": "/state", "workspace": "/work", "output-dir": "/out", "artifacts-dir": "/art", "tmux-socket": "/tm", "tmux-kept": "true", "boot-id": "boot-1",
	"index-dir": "/index", "recording-dir": "/recording", "embedding-url": "http://e/v1", "embedding-model": "m", "embedding-key-file": "/nowhere",
}

var fullConfig = config{
	Port: 1234, PTYPort: 1235, AuthToken: token, AuthTokenFile: "/nowhere", LogLevel: slog.LevelDebug, RgPath: "/rg",
	Browser: true, MCPConfig: `{"a":1}`, HTTPMCPToolsFile: "/tools",
	ComputerUse: true, Redact: true, RecordScreen: true, GenerateImage: true, Sandbox: true,
	SandboxHelper: "/sandbox", ClaudeMD: true, TraceEndpoint: "https://t", TraceToken: "tt", GhostMode: false, TraceInsecure: true,
	StateDir: "/state", Workspace: "/work", OutputDir: "/out", ArtifactsDir: "/art", TmuxSocket: "/tm", TmuxKept: true, BootID: "boot-1",
	IndexDir: "/index", RecordingDir: "/recording", EmbeddingURL: "http://e/v1", EmbeddingModel: "m", EmbeddingKeyFile: "/nowhere",
}

func TestEveryFieldHasAFlagAndAVariable(t *testing.T) {
	if n := reflect.TypeFor[config]().NumField(); n != len(full) || n != len(options) {
		t.Fatalf("config has %d fields, the test knows %d and the table %d", n, len(full), len(options))
	}
	args, split, env := []string{"serve"}, []string{"serve"}, make(map[string]string)
	for name, value := range full {
		args = append(args, "--"+name+"="+value)
		split = append(split, "--"+name, value)
		env[variable(name)] = value
	}
	none := func(string) string { return "" }
	for _, line := range [][]string{args, split} {
		got, err := parse(line, none, io.Discard)
		if err != nil || got != fullConfig {
			t.Errorf("by flags: %+v, %v", got, err)
		}
	}
	got, err := parse([]string{"serve"}, func(name string) string { return env[name] }, io.Discard)
	if err != nil || got != fullConfig {
		t.Errorf("by variables: %+v, %v", got, err)
	}
	got, err = parse([]string{"serve", "-p", "7"}, func(name string) string { return env[name] }, io.Discard)
	if err != nil || got.Port != 7 {
		t.Errorf("a flag before a variable: %+v, %v", got, err)
	}
	got, err = parse([]string{"serve"}, func(name string) string {
		return map[string]string{bootIDVariable: "boot-2", variable("auth-token"): token}[name]
	}, io.Discard)
	if err != nil || got.BootID != "boot-2" {
		t.Errorf("pod-daemon's boot id: %+v, %v", got, err)
	}
	got, err = parse([]string{"serve", "--auth-token", token, "--no-claude-md-enabled=false", "--cloud-rules-enabled", "--browser-enabled", "--computer-use-enabled", "--workspace", "/true"}, none, io.Discard)
	if err != nil || !got.ClaudeMD || !got.CloudRules || !got.Browser || got.Workspace != "/true" {
		t.Errorf("switches: %+v, %v", got, err)
	}
	if got, err = parse([]string{"serve", "--auth-token", token, "--no-claude-md-enabled"}, none, io.Discard); err != nil || got.ClaudeMD || got.CloudRules {
		t.Errorf("switches: %+v, %v", got, err)
	}
}

func TestTokenFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := parse([]string{"serve", "--auth-token-file", file}, func(string) string { return "" }, io.Discard)
	if err != nil || got.AuthToken != token {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                              "usage",
		"run":                           "usage",
		"serve":                         "EXEC_DAEMON_AUTH_TOKEN",
		"serve --no-such-flag":          "no-such-flag",
		"serve --port x":                "invalid value",
		"serve --port 70000":            "70000 is not a valid port",
		"serve --pty-websocket-port -1": "-1 is not a valid port",
		"serve --ghost-mode maybe":      `"maybe" is not a flag`,
		"serve --ghost-mode=maybe":      "invalid",
		"serve --mcp-config {":          "not valid JSON",
		"serve --trace-endpoint x":      "not a valid server URL",
		"serve extra":                   `"extra" is not a flag`,
		"serve --workspace rel":         "absolute",
		"serve --state-dir rel":         "absolute",
		"serve --output-dir rel":        "absolute",
		"serve --index-dir rel":         "absolute",
		"serve --embedding-url http:x":  "or neither",
		"serve --auth-token-file /no":   "--auth-token-file",
		"serve --log-level very":        "invalid value",
		"serve --auth-token short":      "64 hex digits",
		"serve --state-dir /dev/null/":  "not a directory",
	} {
		line := strings.Fields(args)
		if len(line) > 1 && !strings.Contains(args, "auth-token") {
			line = append([]string{"serve", "--auth-token", token, "--port", "0", "--pty-websocket-port", "0"}, line[1:]...)
		}
		var said strings.Builder
		err := run(t.Context(), line, variables{}, &said)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error()+said.String(), token) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	if err := run(t.Context(), []string{"serve", "--help"}, variables{}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("help: %v", err)
	}
}

func TestGhostModeIsTheDefault(t *testing.T) {
	none := func(string) string { return "" }
	for args, want := range map[string]bool{
		"serve --auth-token " + token:                                          true,
		"serve --ghost-mode false --auth-token " + token:                       false,
		"serve --ghost-mode true --auth-token " + token:                        true,
		"serve --ghost-mode --auth-token " + token:                             true,
		"serve --auth-token " + token + " --trace-insecure --ghost-mode=false": false,
	} {
		got, err := parse(strings.Fields(args), none, io.Discard)
		if err != nil || got.GhostMode != want {
			t.Errorf("%s: %v, %v", args, got.GhostMode, err)
		}
	}
}

// TestAgentsVariables checks that the agent's variables, whether a branch, a
// secret or a request sets them, reach only its commands. They must not change
// any flag, program or folder of exec-daemon.
func TestAgentsVariables(t *testing.T) {
	agents := map[string]string{"PATH": "/workspace/bin", "LD_PRELOAD": "/workspace/evil.so", "MARK": "1", "HOME": "/workspace", "TOKEN": "a-secret-of-the-agent"}
	for _, o := range options {
		agents[variable(o.name)] = "/workspace/evil"
	}
	for name, value := range agents {
		t.Setenv(agentPrefix+name, value)
	}
	t.Setenv(variable("auth-token"), strings.Repeat("a", 64))
	t.Setenv(bootIDVariable, "boot")
	path, home := os.Getenv("PATH"), os.Getenv("HOME")
	given := takeOut()
	if got := os.Getenv("PATH"); got != path || os.Getenv("HOME") != home || os.Getenv("LD_PRELOAD") != "" || os.Getenv("MARK") != "" {
		t.Errorf("exec-daemon has the agent's variables: PATH=%s", got)
	}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, agentPrefix) || strings.HasPrefix(v, envPrefix) {
			t.Errorf("%.30s… would be inherited", v)
		}
	}
	for name, value := range agents {
		if got := given.agents(name); got != value {
			t.Errorf("the agent's %s is %q, want %q", name, got, value)
		}
	}
	c, err := parse([]string{"serve"}, given.getenv, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.RgPath != "rg" || c.Workspace != "/workspace" || strings.Contains(c.SandboxHelper+c.StateDir+c.OutputDir, "evil") || c.BootID != "boot" {
		t.Errorf("flags were taken from the agent's variables: %+v", c)
	}
}

// TestRefusedFlags checks that exec-daemon refuses to start with an unsupported
// flag, given as a flag or as a variable, and that the error says why.
func TestRefusedFlags(t *testing.T) {
	refused := map[string]string{
		"cursor-self-control-enabled": "true", "mcp-oauth-server-urls": `["https://a"]`,
		"browser-enabled": "true",
	}
	for name, value := range refused {
		env := map[string]string{variable("auth-token"): token}
		getenv := func(name string) string { return env[name] }
		_, flagErr := parse([]string{"serve", "--" + name + "=" + value}, getenv, io.Discard)
		env[variable(name)] = value
		_, envErr := parse([]string{"serve"}, getenv, io.Discard)
		for _, err := range []error{flagErr, envErr} {
			if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), "--"+name+": ") {
				t.Errorf("--%s=%s: %v", name, value, err)
			}
		}
	}
	for _, o := range options {
		if o.refused != "" && refused[o.name] == "" {
			t.Errorf("--%s is refused, and not tried here", o.name)
		}
	}
}

// TestBrowserOfTheAgent checks which browser the agent's commands use.
func TestBrowserOfTheAgent(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	for _, name := range []string{"chromium", "google-chrome"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		given variables
		cfg   config
		want  string
	}{
		{variables{}, config{}, ""},
		{variables{}, config{Browser: true}, filepath.Join(bin, "google-chrome")},
		{variables{}, config{ChromeExecutable: "/opt/chrome"}, "/opt/chrome"},
		{variables{}, config{Browser: true, ChromeExecutable: "/opt/chrome"}, "/opt/chrome"},
		{variables{agent: []string{"CHROME_PATH=/mine"}}, config{ChromeExecutable: "/opt/chrome"}, "/mine"},
	} {
		before := slices.Clone(c.given.agent)
		c.given.setBrowser(c.cfg)
		if got := c.given.agents("CHROME_PATH"); got != c.want {
			t.Errorf("%+v with %q: CHROME_PATH is %q instead of %q", c.cfg, before, got, c.want)
		}
		if got := c.given.agents("PUPPETEER_EXECUTABLE_PATH"); (got != "") != (c.want != "") {
			t.Errorf("%+v: PUPPETEER_EXECUTABLE_PATH is %q", c.cfg, got)
		}
	}
}
