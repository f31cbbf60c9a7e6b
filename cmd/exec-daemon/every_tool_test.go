package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/conversation"
	"aloft/internal/need"
	"aloft/internal/tool"
)

// TestEveryToolOverTheWire calls every tool of the catalogue that runs in the
// machine with arguments as a model sends them, through the server's encoder
// and a running daemon, and checks the result. It fails if a tool has no row.
func TestEveryToolOverTheWire(t *testing.T) {
	need.Command(t, "bash")
	need.Command(t, "git")
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"near": map[string]any{"command": self, "args": []string{"mcp-server"}}}})
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, func(d *daemon) {
		d.more = []string{"--mcp-config", string(servers), "--record-screen-enabled", "--generate-image-enabled"}
	})
	notebook := `{"cells":[{"cell_type":"code","metadata":{},"outputs":[],"source":["x = 1\n"],"execution_count":null}],"metadata":{},"nbformat":4,"nbformat_minor":4}`
	for name, text := range map[string]string{"n.ipynb": notebook, "bad.sh": "fi\n"} {
		if err := os.WriteFile(filepath.Join(d.workspace, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := d.client()
	var painted bytes.Buffer
	if err := png.Encode(&painted, image.NewNRGBA(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name, args, want string
		payload          []byte // arguments that the server adds
		refused          bool   // the result must be an error, because this machine lacks a requirement
	}{
		{name: "Write", args: `{"path":"a.go","contents":"package a\n\n// Retry asks again.\nfunc Retry() {}\n"}`},
		{name: "StrReplace", args: `{"path":"a.go","old_string":"package a","new_string":"package b"}`},
		{name: "Read", args: `{"path":"a.go","offset":1,"limit":1}`, want: "package b"},
		{name: "EditNotebook", args: `{"target_notebook":"n.ipynb","cell_idx":0,"is_new_cell":false,"cell_language":"python","old_string":"x = 1","new_string":"x = 2"}`},
		{name: "LS", args: `{"path":"."}`, want: "a.go"},
		{name: "Glob", args: `{"glob_pattern":"*.go"}`, want: "a.go"},
		{name: "Grep", args: `{"pattern":"Retry","-A":0,"output_mode":"content"}`, want: "a.go:4:func Retry() {}"},
		{name: "SemSearch", args: `{"query":"where do we ask again?"}`, want: "a.go:1-4"},
		{name: "ReadLints", args: `{"paths":["bad.sh"]}`, want: "bad.sh:1:1: error"},
		{name: "Shell", args: `{"command":"read -r line; echo got $line","is_background":true}`},
		{name: "WriteShellStdin", args: `{"pid":%d,"input":"this\n","close":true}`},
		{name: "Await", args: `{"pids":[%d],"timeout":60000}`, want: "got this"},
		{name: "CallMcpTool", args: `{"server":"near","tool_name":"secret","arguments":{"times":1}}`, want: "of"},
		{name: "ListMcpResources", args: `{"server":"near"}`, want: "test://notes"},
		{name: "FetchMcpResource", args: `{"server":"near","uri":"test://notes"}`, want: "buy milk"},
		{name: "McpAuth", args: `{"server":"near"}`, want: "it has no sign-in", refused: true},
		{name: "Fetch", args: `{"url":"http://127.0.0.1:1/"}`, want: "private network", refused: true},
		{name: "WebFetch", args: `{"url":"http://127.0.0.1:1/"}`, want: "private network", refused: true},
		{name: "GenerateImage", args: `{"description":"a kite","file_path":"kite.png"}`, payload: painted.Bytes(), want: "kite.png: image/png, "},
		{name: "GenerateImage", args: `{"description":"a kite"}`, want: "the image did not arrive", refused: true},
		{name: "ApplyAgentDiff", args: `{"agent_id":"bc-1"}`, payload: []byte(`[{"folder":"none","text":"eA==","files":["a"]}]`), want: "is not the working tree of a repository", refused: true},
		{name: "RecordScreen", args: `{"mode":"START_RECORDING"}`, want: "desktop", refused: true},
		{name: "ComputerUse", args: `{"actions":[{"screenshot":{}}]}`, want: "desktop", refused: true},
		{name: "Delete", args: `{"path":"a.go"}`},
	}
	pid := 0 // process id of the background command
	called := map[string]bool{}
	for i, r := range rows {
		called[r.name] = true
		args := r.args
		if strings.Contains(args, "%d") {
			args = fmt.Sprintf(args, pid)
		}
		res, _, err := e.Call(within(t), conversation.ToolCall{ID: fmt.Sprintf("every-%d", i), Name: r.name, Args: json.RawMessage(args), Payload: r.payload}, nil)
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		if res.Error != r.refused || !strings.Contains(res.Text, r.want) {
			t.Errorf("%s %s: error %v, %q", r.name, args, res.Error, res.Text)
		}
		var out struct {
			Success struct{ PID int } `json:"success"`
		}
		if json.Unmarshal(res.Output, &out) == nil && out.Success.PID != 0 {
			pid = out.Success.PID
		}
	}
	for _, spec := range tool.Catalogue() {
		if spec.Home == tool.Guest && !called[spec.Name] {
			t.Errorf("no row calls %s", spec.Name)
		}
	}
}
