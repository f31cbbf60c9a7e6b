package tool_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/need"
	"aloft/internal/wire/agentv1"
)

func TestShellInTheBackground(t *testing.T) {
	hand := tool.Shell(session(t, t.TempDir()), nil)
	out := use(t, hand, map[string]any{"command": "echo up; exec sleep 300", "is_background": true})
	s := out.Call.GetShellToolCall().GetResult().GetSuccess()
	if out.Error || s.GetPid() == 0 || !strings.Contains(out.Text, s.GetOutputFile()) {
		t.Fatalf("%q, %+v", out.Text, s)
	}
	defer syscall.Kill(int(s.GetPid()), syscall.SIGKILL)
	deadline, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(s.GetOutputFile())
		if err != nil {
			t.Fatal(err)
		}
		if string(text) == "up\n" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.Done():
			t.Fatalf("the file holds %q", text)
		}
	}
}

func TestShellTellsOfTheCancel(t *testing.T) {
	hand := tool.Shell(session(t, t.TempDir()), nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	var mu sync.Mutex
	var seen strings.Builder
	out := hand.Run(ctx, tooltest.Call(t, "Shell", `{"command": "echo up; sleep 300"}`), func(d *agentv1.ToolCallDelta) {
		mu.Lock()
		defer mu.Unlock()
		seen.WriteString(d.GetShellToolCallDelta().GetStdout())
		cancel(errors.New("the user said so"))
	})
	tooltest.Check(t, "Shell", out)
	if !out.Error || !strings.Contains(out.Text, "up\n[cancelled") || !strings.Contains(out.Text, "the user said so") || seen.String() != "up\n" {
		t.Errorf("%q after deltas %q", out.Text, seen.String())
	}
}

func TestShellNamesTheFileOfLongOutput(t *testing.T) {
	hand := tool.Shell(session(t, t.TempDir()), nil)
	out := use(t, hand, map[string]any{"command": "seq 20000"})
	s := out.Call.GetShellToolCall().GetResult().GetSuccess()
	if len(out.Text) > 31000 || s.GetOutputFile() == "" || !strings.Contains(out.Text, s.GetOutputFile()) {
		t.Errorf("%d bytes, file %q", len(out.Text), s.GetOutputFile())
	}
	if st, err := os.Stat(s.GetOutputFile()); err != nil || float64(st.Size()) != s.GetOutputBytes() {
		t.Errorf("%v, %v", st, err)
	}
	call := tooltest.Call(t, "Shell", `{"command": "seq 100", "file_output_threshold_bytes": 100}`)
	if out = hand.Run(t.Context(), call, func(*agentv1.ToolCallDelta) {}); !strings.Contains(out.Text, "bytes left out") {
		t.Errorf("a threshold of 100: %q", out.Text)
	}
}

// TestShellFailure checks that a result gives the reason for a failure,
// whatever the command has printed.
func TestShellFailure(t *testing.T) {
	need.Command(t, "bash")
	hand := tool.Shell(session(t, t.TempDir()), nil)
	for args, want := range map[string]agentv1.FailureKind{
		`{"command":"sleep 100","timeout":100}`:                    agentv1.FailureKind_FAILURE_KIND_TIMEOUT,
		`{"command":"echo timed out, permission denied; kill $$"}`: agentv1.FailureKind_FAILURE_KIND_UNSPECIFIED,
		`{"command":" "}`: agentv1.FailureKind_FAILURE_KIND_UNSPECIFIED,
	} {
		out := hand.Run(t.Context(), tooltest.Call(t, "Shell", args), func(*agentv1.ToolCallDelta) {})
		if !out.Error || out.Failure != want {
			t.Errorf("%s: error %v, failure %v: %s", args, out.Error, out.Failure, out.Text)
		}
	}
}
