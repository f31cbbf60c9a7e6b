package tool_test

import (
	"strings"
	"syscall"
	"testing"

	"aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/need"
)

func TestAwait(t *testing.T) {
	need.Command(t, "bash")
	tooltest.Run(t, func(t *testing.T, ws tool.Workspace) tool.Tool { return tool.Await(session(t, ws.Dir)) }, "testdata/await")
}

func TestWriteShellStdin(t *testing.T) {
	need.Command(t, "bash")
	tooltest.Run(t, func(t *testing.T, ws tool.Workspace) tool.Tool { return tool.WriteShellStdin(session(t, ws.Dir)) }, "testdata/write_shell_stdin")
}

// TestTalkWithABackgroundCommand performs a complete exchange with a background
// command, as a model would.
func TestTalkWithABackgroundCommand(t *testing.T) {
	s := session(t, t.TempDir())
	sh, await, write := tool.Shell(s, nil), tool.Await(s), tool.WriteShellStdin(s)
	out := use(t, sh, map[string]any{"command": `echo ready; read -r a; echo "a is $a"; read -r b || echo none; exit 4`, "is_background": true})
	pid := out.Call.GetShellToolCall().GetResult().GetSuccess().GetPid()
	defer func() { _ = syscall.Kill(int(-pid), syscall.SIGKILL) }() // the command has ended, unless the test fails

	out = use(t, await, map[string]any{"pids": []int32{pid}, "pattern": "^ready"})
	if !strings.Contains(out.Text, " runs]\nready\n") {
		t.Errorf("await: %q", out.Text)
	}
	if out = use(t, write, map[string]any{"pid": pid, "input": "1\n"}); out.Error || !strings.HasPrefix(out.Text, "Wrote 2 bytes") {
		t.Errorf("write: %q", out.Text)
	}
	if out = use(t, await, map[string]any{"pattern": "a is"}); !strings.Contains(out.Text, "]\na is 1\n") {
		t.Errorf("await of all: %q", out.Text)
	}
	if out = use(t, await, map[string]any{"timeout": 0}); out.Error || !strings.Contains(out.Text, "timed out after 0 ms") {
		t.Errorf("a look: %q", out.Text)
	}
	if out = use(t, sh, map[string]any{"command": "true"}); !strings.Contains(out.Text, "[in the background: process") || len(out.Call.GetShellToolCall().GetResult().GetSuccess().GetBackground()) != 1 {
		t.Errorf("shell beside it: %q", out.Text)
	}
	if out = use(t, write, map[string]any{"pid": pid, "input": "", "close": true}); !strings.HasSuffix(out.Text, "Its input is closed.") {
		t.Errorf("close: %q", out.Text)
	}
	out = use(t, await, map[string]any{"pids": []int32{pid}})
	if c := out.Call.GetAwaitToolCall().GetResult().GetSuccess().GetCommands()[0].GetCommand(); c.GetRunning() || c.GetExitCode() != 4 || !strings.Contains(out.Text, "has ended with exit code 4]\nnone\n") {
		t.Errorf("the end: %q, %v", out.Text, c)
	}
	if out = use(t, sh, map[string]any{"command": "true"}); strings.Contains(out.Text, "in the background") {
		t.Errorf("the end was told, and is told again: %q", out.Text)
	}
}

// If no background command runs, Await waits until its timeout.
func TestAwaitTimer(t *testing.T) {
	s := session(t, t.TempDir())
	out := use(t, tool.Await(s), map[string]any{"timeout": 20})
	got := out.Call.GetAwaitToolCall().GetResult().GetSuccess()
	if out.Error || !got.GetTimedOut() || got.GetWaitedMs() < 20 || out.Text != "[timed out after 20 ms]\n" {
		t.Errorf("a timer: %q, %v", out.Text, got)
	}
	for _, args := range []map[string]any{{}, {"timeout": 0}, {"timeout": 20, "pattern": "x"}} {
		if out := use(t, tool.Await(s), args); !out.Error || !strings.Contains(out.Text, "nothing to wait for") {
			t.Errorf("%v: %q", args, out.Text)
		}
	}
}
