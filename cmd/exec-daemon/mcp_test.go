package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// serveMCP is a small server of MCP.
func serveMCP() error {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	type in struct {
		Times int `json:"times,omitempty"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "secret", Description: "Says what it knows."}, func(_ context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		text := strings.Repeat(os.Getenv("API_KEY")+" of "+os.Getenv("OWN")+"\n", max(in.Times, 1))
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: map[string]any{"key": os.Getenv("API_KEY")}}, nil, nil
	})
	s.AddResource(&sdk.Resource{URI: "test://notes", Name: "notes"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://notes", MIMEType: "text/plain", Text: "buy milk"}}}, nil
	})
	return s.Run(context.Background(), &sdk.StdioTransport{})
}

// A daemon with --mcp-config runs the servers there and calls their tools; what they
// say is treated as any tool's output is.
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
		{"CallMcpTool", `{"server":"far","tool_name":"look"}`, "is not in this machine"},
		{"CallMcpTool", `{"server":"other","tool_name":"look"}`, `there is no MCP server "other"; there are near`},
		{"ListMcpResources", `{}`, `"uri":"test://notes"`},
		{"FetchMcpResource", `{"server":"near","uri":"test://notes"}`, "buy milk"},
		{"FetchMcpResource", `{"server":"near","uri":"test://notes","downloadPath":"sub/notes.txt"}`, "8 bytes are in "},
		{"FetchMcpResource", `{"server":"near","uri":"test://notes","downloadPath":"sub/notes.txt"}`, "is there already"},
		{"FetchMcpResource", `{"server":"near","uri":"test://notes","downloadPath":"../notes.txt"}`, "is not inside the workspace"},
		{"FetchMcpResource", `{"server":"near","uri":"test://notes","downloadPath":".cursor/mcp.json"}`, "may not be written"},
		{"McpAuth", `{"server":"near"}`, "nowhere to sign in"},
	} {
		if r := call(c.name, c.args); !strings.Contains(r.Text, c.want) {
			t.Errorf("%s %s: %q", c.name, c.args, r.Text)
		}
	}
	if data, err := os.ReadFile(filepath.Join(d.workspace, "sub", "notes.txt")); err != nil || string(data) != "buy milk" {
		t.Errorf("%q, %v", data, err)
	}
	// A link inside that leads out is not followed.
	if err := os.Symlink(t.TempDir(), filepath.Join(d.workspace, "out")); err != nil {
		t.Fatal(err)
	}
	if r := call("FetchMcpResource", `{"server":"near","uri":"test://notes","downloadPath":"out/notes.txt"}`); !strings.Contains(r.Text, "is not inside the workspace") {
		t.Errorf("%q", r.Text)
	}
}
