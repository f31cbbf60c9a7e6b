package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/pod"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// call makes a call that must be answered.
func call(t *testing.T, e *pod.Exec, id, name string, args map[string]any) tool.Result {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	res, _, err := e.Call(within(t), conversation.ToolCall{ID: id, Name: name, Args: text}, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// TestBackgroundOverTheWire talks with a command over a restart of exec-daemon.
func TestBackgroundOverTheWire(t *testing.T) {
	d := start(t)
	e := d.client()
	res := call(t, e, "b1", "Shell", map[string]any{"command": "read -r x; echo got $x; read -r y; echo bye; exit 5", "is_background": true})
	var started struct {
		Success struct {
			PID        int
			DurationMS float64
			Background []struct{ Running bool }
		}
	}
	if err := json.Unmarshal(res.Output, &started); err != nil || started.Success.PID == 0 || len(started.Success.Background) != 1 {
		t.Fatalf("%s, %v", res.Output, err)
	}
	pid := started.Success.PID
	if res = call(t, e, "b2", "WriteShellStdin", map[string]any{"pid": pid, "input": "it\n"}); res.Error {
		t.Errorf("%+v", res)
	}
	if res = call(t, e, "b3", "Await", map[string]any{"pids": []int{pid}, "pattern": "^got"}); !strings.Contains(res.Text, "got it\n") {
		t.Errorf("%+v", res)
	}
	_ = d.signal(syscall.SIGKILL)
	d.start()
	// Its input ended with exec-daemon; its exit code is known all the same.
	if res = call(t, e, "b4", "Await", map[string]any{"pids": []int{pid}}); res.Error || !strings.Contains(res.Text, "has ended with exit code 5") {
		t.Errorf("after the restart: %+v", res)
	}
}

// TestLongResultOverTheWire is cut, and the whole of it can be read.
func TestLongResultOverTheWire(t *testing.T) {
	d := start(t)
	e := d.client()
	for i := range 700 {
		name := filepath.Join(d.workspace, fmt.Sprintf("%03d-%s", i, strings.Repeat("x", 100)))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	res := call(t, e, "l1", "LS", nil)
	var cut struct {
		Success struct {
			Tool, Path, Head, Tail string
			SizeBytes              float64
		}
	}
	if err := json.Unmarshal(res.Output, &cut); err != nil || cut.Success.Tool != "LS" || cut.Success.Path == "" {
		t.Fatalf("%.300s, %v", res.Output, err)
	}
	if len(res.Text) > 33_000 || !strings.Contains(res.Text, cut.Success.Path) {
		t.Errorf("%d bytes", len(res.Text))
	}
	if res = call(t, e, "l2", "Grep", map[string]any{"pattern": "^  350-", "path": cut.Success.Path, "output_mode": "count"}); !strings.Contains(res.Text, ":1") {
		t.Errorf("%+v", res)
	}
}

// TestFetchOverTheWire is refused before it reaches the daemon's own port.
func TestFetchOverTheWire(t *testing.T) {
	d := start(t)
	res := call(t, d.client(), "f1", "Fetch", map[string]any{"url": "http://" + d.addr + "/"})
	if !res.Error || !strings.Contains(res.Text, "private network") {
		t.Errorf("%+v", res)
	}
}

// TestPDFOverTheWire is read by exec-daemon's own binary.
func TestPDFOverTheWire(t *testing.T) {
	d := start(t)
	if err := os.WriteFile(filepath.Join(d.workspace, "a.pdf"), []byte("%PDF-1.4\nnothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	res := call(t, d.client(), "p1", "Read", map[string]any{"path": "a.pdf"})
	if !res.Error || !strings.Contains(res.Text, "the PDF cannot be read: not a PDF file") {
		t.Errorf("%+v", res)
	}
}
