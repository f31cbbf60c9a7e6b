package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"aloft/internal/conversation"
	"aloft/internal/guest/sandbox"
	"aloft/internal/need"
	"aloft/internal/tool"
)

// serveMCP runs a small MCP server.
func serveMCP() error {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type in struct {
		Times int `json:"times,omitempty"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "secret", Description: "Says what it knows."}, func(_ context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		text := strings.Repeat(os.Getenv("API_KEY")+" of "+os.Getenv("OWN")+"\n", max(in.Times, 1))
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: map[string]any{"key": os.Getenv("API_KEY")}}, nil, nil
	})
	type attempts struct {
		Inside, Outside, Address string
	}
	sdk.AddTool(s, &sdk.Tool{Name: "try", Description: "Writes two files and opens a connection."}, func(_ context.Context, _ *sdk.CallToolRequest, in attempts) (*sdk.CallToolResult, any, error) {
		inside, outside := os.WriteFile(in.Inside, nil, 0o600), os.WriteFile(in.Outside, nil, 0o600)
		_, reached := net.DialTimeout("tcp", in.Address, time.Minute)
		text := fmt.Sprintf("uid %d\ninside %v\noutside %v\nreached %v", os.Getuid(), inside, outside, reached)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
	})
	s.AddResource(&sdk.Resource{URI: "test://notes", Name: "notes"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://notes", MIMEType: "text/plain", Text: "buy milk"}}}, nil
	})
	return s.Run(context.Background(), &sdk.StdioTransport{})
}

// TestMCPServers checks that a daemon with --mcp-config runs the servers in
// that file and calls their tools, and that it treats their output like any
// tool's.
func TestMCPServers(t *testing.T) {
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	told := filepath.Join(t.TempDir(), "tools.json")
	if err := os.WriteFile(told, []byte(`[{"server":"far","tools":[{"name":"look","description":"Looks.","arguments":{"type":"object"}}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"near": map[string]any{"command": self, "args": []string{"mcp-server"}, "env": map[string]string{"OWN": "${workspaceFolderBasename}"}},
		"far":  map[string]any{"url": "https://mcp.example.com"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, func(d *daemon) {
		d.more = []string{"--mcp-config", string(config), "--http-mcp-tools-file", told, "--secret-redaction-enabled"}
		d.env = []string{"API_KEY=swordfish-and-more", "CLOUD_AGENT_INJECTED_SECRET_NAMES=API_KEY"}
	})
	exec := d.client()
	calls := 0
	call := func(name, args string) tool.Result {
		t.Helper()
		calls++
		r, _, err := exec.Call(within(t), conversation.ToolCall{ID: "mcp-" + string(rune('a'+calls)), Name: name, Args: json.RawMessage(args)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.Text+string(r.Output), "swordfish") {
			t.Errorf("%s %s shows a secret: %s %s", name, args, r.Text, r.Output)
		}
		return r
	}
	dir := filepath.Base(d.workspace)
	if r := call("CallMcpTool", `{"server":"near","tool_name":"secret"}`); r.Error || strings.TrimSpace(r.Text) != "[REDACTED] of "+dir {
		t.Errorf("%+v", r)
	}
	if r := call("CallMcpTool", `{"server":"near","tool_name":"secret","arguments":{"times":5000}}`); r.Error || len(r.Text) > 40_000 || !strings.Contains(r.Text, "the result is too long") || !strings.Contains(string(r.Output), `"path":"`) {
		t.Errorf("%d bytes, %.300s", len(r.Text), r.Output)
	}
	for _, c := range []struct{ name, args, want string }{
		{"CallMcpTool", `{"server":"near"}`, `"name":"secret"`},
		{"CallMcpTool", `{"server":"far"}`, `"name":"look"`},
		{"CallMcpTool", `{"server":"far","tool_name":"look"}`, "does not run in this machine"},
		{"CallMcpTool", `{"server":"other","tool_name":"look"}`, `there is no MCP server "other"; available: near`},
		{"ListMcpResources", `{}`, `"uri":"test://notes"`},
		{"FetchMcpResource", `{"server":"near","uri":"test://notes"}`, "buy milk"},
		{"FetchMcpResource", `{"server":"near","uri":"test://notes","downloadPath":"sub/notes.txt"}`, "8 bytes are in "},
		{"FetchMcpResource", `{"server":"near","uri":"test://notes","downloadPath":"sub/notes.txt"}`, "already exists"},
		{"FetchMcpResource", `{"server":"near","uri":"test://notes","downloadPath":"../notes.txt"}`, "is not inside the workspace"},
		{"FetchMcpResource", `{"server":"near","uri":"test://notes","downloadPath":".cursor/mcp.json"}`, "may not be written"},
		{"McpAuth", `{"server":"near"}`, "it has no sign-in"},
	} {
		if r := call(c.name, c.args); !strings.Contains(r.Text, c.want) {
			t.Errorf("%s %s: %q", c.name, c.args, r.Text)
		}
	}
	if data, err := os.ReadFile(filepath.Join(d.workspace, "sub", "notes.txt")); err != nil || string(data) != "buy milk" {
		t.Errorf("%q, %v", data, err)
	}
	// A symbolic link in the workspace that leads out of it is not followed.
	if err := os.Symlink(t.TempDir(), filepath.Join(d.workspace, "out")); err != nil {
		t.Fatal(err)
	}
	if r := call("FetchMcpResource", `{"server":"near","uri":"test://notes","downloadPath":"out/notes.txt"}`); !strings.Contains(r.Text, "is not inside the workspace") {
		t.Errorf("%q", r.Text)
	}
}

// TestMCPServersInTheSandbox checks that a sandboxed server can write only to
// the workspace and has no network, as root and as another user. Without the
// sandbox it can do both.
func TestMCPServersInTheSandbox(t *testing.T) {
	need.Root(t) // to become another user
	if k := sandbox.Probe(); !k.Namespaces || k.Landlock < 6 {
		need.Missing(t, "sandbox", fmt.Errorf("landlock ABI %d, namespaces %v: %s", k.Landlock, k.Namespaces, k.Why))
	}
	base, err := os.MkdirTemp("/var/lib", "exec-daemon-test-*") // everybody may write below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	self, helper := filepath.Join(base, "exec-daemon"), filepath.Join(base, "sandbox")
	program, err := os.ReadFile(os.Args[0])
	if err = errors.Join(err, os.Chmod(base, 0o755), os.WriteFile(self, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", helper, "aloft/cmd/sandbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"near": map[string]any{"command": self, "args": []string{"mcp-server"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, uid := range map[string]int{"root": 0, "user": 1000} {
		outside := filepath.Join(base, name)
		if err := errors.Join(os.Mkdir(outside, 0o755), os.Chown(outside, uid, uid)); err != nil {
			t.Fatal(err)
		}
		for around, want := range map[string]string{
			"with":    "inside <nil>\noutside open " + outside + "/file: read-only file system\nreached dial tcp " + l.Addr().String() + ": connect: connection refused",
			"without": "inside <nil>\noutside <nil>\nreached <nil>",
		} {
			t.Run(name+" "+around, func(t *testing.T) {
				d := start(t, func(d *daemon) {
					if err := os.Chown(d.workspace, uid, uid); err != nil {
						t.Fatal(err)
					}
					d.program, d.user = self, &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
					d.env = []string{"HOME=" + d.workspace}
					d.more = []string{"--mcp-config", string(config)}
					if around == "with" {
						d.more = append(d.more, "--sandbox-enabled", "--sandbox-helper-path", helper)
					}
				})
				args, err := json.Marshal(map[string]any{"server": "near", "tool_name": "try", "arguments": map[string]any{
					"Inside": filepath.Join(d.workspace, "file"), "Outside": filepath.Join(outside, "file"), "Address": l.Addr().String(),
				}})
				if err != nil {
					t.Fatal(err)
				}
				r, _, err := d.client().Call(within(t), conversation.ToolCall{ID: "try", Name: "CallMcpTool", Args: args}, nil)
				if want := fmt.Sprintf("uid %d\n%s", uid, want); err != nil || r.Error || strings.TrimSpace(r.Text) != want {
					t.Errorf("%q, %v, want %q", r.Text, err, want)
				}
			})
		}
	}
}
