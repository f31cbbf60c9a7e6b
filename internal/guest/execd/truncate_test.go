package execd

import (
	"context"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"aloft/internal/guest/tool"
	"aloft/internal/wire/agentv1"
)

// saying returns a tool with a fixed result.
func saying(text string, failed bool) tool.Tool {
	return tool.Tool{Name: "Glob", Run: func(context.Context, *agentv1.ToolCall, tool.Emit) tool.Outcome {
		call := &agentv1.ToolCall{Tool: &agentv1.ToolCall_GlobToolCall{GlobToolCall: &agentv1.GlobToolCall{}}}
		return tool.Outcome{Call: call, Text: text, Error: failed, Pictures: []*agentv1.Picture{{MediaType: "image/png"}}}
	}}
}

var asked = &agentv1.ToolCall{Tool: &agentv1.ToolCall_GlobToolCall{GlobToolCall: &agentv1.GlobToolCall{Args: &agentv1.GlobToolArgs{}}}}

func TestTruncatedKeepsTheWholeInAFile(t *testing.T) {
	text := strings.Repeat("eine Zeile, die länger ist\n", 5000)
	out := truncated(saying(text, false), t.TempDir()).Run(t.Context(), asked, nil)
	s := out.Call.GetTruncatedToolCall().GetResult().GetSuccess()
	kept, err := os.ReadFile(s.GetPath())
	if err != nil || string(kept) != text {
		t.Fatalf("%d bytes are kept of %d: %v", len(kept), len(text), err)
	}
	if len(out.Text) > resultThreshold || out.Error || len(out.Pictures) != 1 || !strings.Contains(out.Text, s.GetPath()) {
		t.Errorf("%d bytes, error %v", len(out.Text), out.Error)
	}
	if s.GetTool() != "Glob" || s.GetSizeBytes() != float64(len(text)) || s.GetLines() != 5001 {
		t.Errorf("%s, %v bytes, %d lines", s.GetTool(), s.GetSizeBytes(), s.GetLines())
	}
	if !strings.HasPrefix(text, s.GetHead()) || !strings.HasSuffix(text, s.GetTail()) || !strings.HasSuffix(s.GetHead(), "\n") || !strings.HasPrefix(s.GetTail(), "eine") {
		t.Error("the ends are not the text's, in whole lines")
	}
}

func TestTruncatedLeavesAlone(t *testing.T) {
	short := strings.Repeat("x", resultThreshold)
	if out := truncated(saying(short, false), t.TempDir()).Run(t.Context(), asked, nil); out.Text != short || out.Call.GetGlobToolCall() == nil {
		t.Error("a short result was cut")
	}
	own := saying(short+"x", false)
	own.Bounded = true
	if out := truncated(own, t.TempDir()).Run(t.Context(), asked, nil); len(out.Text) != len(short)+1 {
		t.Error("the result of a tool that bounds itself was cut")
	}
}

func TestTruncatedWithoutAFile(t *testing.T) {
	text := strings.Repeat("ü", resultThreshold)
	for _, dir := range []string{"", "/proc/nothing"} {
		out := truncated(saying(text, false), dir).Run(t.Context(), asked, nil)
		if !strings.Contains(out.Text, "could not be saved") || !utf8.ValidString(out.Text) || out.Call.GetTruncatedToolCall().GetResult().GetSuccess().GetPath() != "" {
			t.Errorf("%q: %.100q", dir, out.Text)
		}
	}
}

func TestTruncatedError(t *testing.T) {
	out := truncated(saying(strings.Repeat("no\n", 30_000), true), t.TempDir()).Run(t.Context(), asked, nil)
	if !out.Error || len(out.Text) > resultThreshold || out.Call.GetGlobToolCall().GetResult().GetError().GetMessage() != out.Text {
		t.Errorf("%d bytes, %v", len(out.Text), out.Error)
	}
}
