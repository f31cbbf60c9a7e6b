package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/execclient"
	"aloft/internal/control/pod"
	"aloft/internal/conversation"
)

// TestToolCall calls a tool of the real exec-daemon as the loop does, and
// continues the call after exec-daemon was killed.
func TestToolCall(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	dir := filepath.Join(m.disk, "bin")
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "exec-daemon"), "aloft/cmd/exec-daemon")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.more = []string{"--exec-daemon", filepath.Join(dir, "exec-daemon")}
	m.start()
	c := m.dial(f)
	ready := m.mustBoot(c, pod.Checkout{Branch: "b"})
	e := execclient.NewCalls(c.OpenExec, token)
	t.Cleanup(func() { _ = e.Close() })
	shell := func(id, command string) (string, bool) {
		t.Helper()
		args, err := json.Marshal(map[string]string{"command": command, "description": "test"})
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := e.Call(t.Context(), conversation.ToolCall{ID: id, Name: "Shell", Args: args}, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, m.log.String())
		}
		return r.Text, r.Error
	}
	if out, failed := shell("call-1", "pwd; id -un; echo $CURSOR_AGENT; env | grep -c EXEC_DAEMON || true"); failed || !strings.Contains(out, m.workspace()+"\nnobody\n1\n0") {
		t.Errorf("shell: %s", out)
	}
	if boot, err := e.BootID(t.Context()); err != nil || boot != ready.BootID {
		t.Errorf("exec-daemon's boot %q, %v; pod-daemon's %q", boot, err, ready.BootID)
	}
	if out, failed := shell("call-2", `kill -9 $(pgrep -x exec-daemon)`); !failed {
		t.Errorf("a call that killed exec-daemon: %s", out)
	}
	if out, failed := shell("call-3", "echo again"); failed || !strings.Contains(out, "again") {
		t.Errorf("the next call: %s", out)
	}
	if s, err := c.Status(t.Context()); err != nil || s.ExecRestarts != 1 {
		t.Errorf("status: %+v, %v", s, err)
	}
}
