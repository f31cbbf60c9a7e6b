package transcript

import (
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/conversation"
)

// TestOf checks the transcript that hooks read.
func TestOf(t *testing.T) {
	t.Parallel()
	got := string(Of([]conversation.Message{
		conversation.Text(conversation.User, "Do <it>"),
		{Role: conversation.Assistant, Blocks: []conversation.Block{
			{Thinking: &conversation.Thinking{Text: "hm"}}, {Text: "I do."}, {Call: &conversation.ToolCall{ID: "1", Name: "Shell", Args: json.RawMessage(`{"command": "ls"}`)}},
			{Call: &conversation.ToolCall{ID: "2", Name: "Shell", Args: json.RawMessage(`{"comm`)}},
		}},
		{Role: conversation.User, Blocks: []conversation.Block{{Result: &conversation.ToolResult{CallID: "1", Text: "a\nb", Error: true}}, {Image: &conversation.Image{}}}},
	}))
	want := `{"role":"user","message":{"content":[{"type":"text","text":"Do <it>"}]}}
{"role":"assistant","message":{"content":[{"type":"text","text":"I do."}]}}
{"role":"assistant","message":{"content":[{"type":"tool_use","id":"1","name":"Shell","input":{"command":"ls"}}]}}
{"role":"assistant","message":{"content":[{"type":"tool_use","id":"2","name":"Shell"}]}}
{"role":"user","message":{"content":[{"type":"tool_result","tool_use_id":"1","content":"a\nb","is_error":true}]}}
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestProgress checks which part of a transcript counts as sent to a machine
// while the transcript grows, is compacted, and is lost.
func TestProgress(t *testing.T) {
	t.Parallel()
	var to Progress
	var has string
	send := func(lines string, pieces int) {
		t.Helper()
		for range pieces {
			more, at := to.Next([]byte(lines))
			if at == 0 || at == int64(len(has)) { // append as exec-daemon does
				has = has[:at] + string(more)
			}
			to.Has(int64(len(has)))
		}
		if has != lines {
			t.Errorf("the machine has %.40q, want %.40q", has, lines)
		}
	}
	send("a\n", 1)
	send("a\nb\n", 1)
	if more, at := to.Next([]byte("a\nb\nc\n")); string(more) != "c\n" || at != 4 {
		t.Errorf("%q is sent at %d", more, at)
	}
	has += "c\n"
	to.Has(6)
	send("summary\n", 1)
	has = "" // to another machine
	send("summary\nd\n", 2)
	send(strings.Repeat("x", 2*MaxPiece+1), 3)
}
