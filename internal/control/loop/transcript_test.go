package loop

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
)

// TestTranscriptOf checks the transcript that hooks read.
func TestTranscriptOf(t *testing.T) {
	t.Parallel()
	got := string(transcriptOf([]conversation.Message{
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

// TestTranscriptIsSentOnce tracks what a machine has of a transcript while it
// grows, is compacted, and is lost.
func TestTranscriptIsSentOnce(t *testing.T) {
	t.Parallel()
	var to transcriptProgress
	var has string
	send := func(lines string, pieces int) {
		t.Helper()
		for range pieces {
			more, at := to.next([]byte(lines))
			if at == 0 || at == int64(len(has)) { // as exec-daemon does
				has = has[:at] + string(more)
			}
			to.has(int64(len(has)))
		}
		if has != lines {
			t.Errorf("the machine has %.40q, want %.40q", has, lines)
		}
	}
	send("a\n", 1)
	send("a\nb\n", 1)
	if more, at := to.next([]byte("a\nb\nc\n")); string(more) != "c\n" || at != 4 {
		t.Errorf("%q is sent at %d", more, at)
	}
	has += "c\n"
	to.has(6)
	send("summary\n", 1)
	has = "" // another machine
	send("summary\nd\n", 2)
	send(strings.Repeat("x", 2*maxTranscriptPiece+1), 3)
}

// TestTranscribeSendsLongOnesAhead uses a conversation that is too long to fit
// in the hook call.
func TestTranscribeSendsLongOnesAhead(t *testing.T) {
	t.Parallel()
	m := &keeper{}
	l := &thread{Loop: &Loop{}, machine: m}
	s := &agent.State{Thread: agent.Thread{Messages: []conversation.Message{conversation.Text(conversation.User, strings.Repeat("x", 3*maxTranscriptPiece))}}}
	var call remote.HookCall
	if err := l.transcribe(t.Context(), s, &call); err != nil {
		t.Fatal(err)
	}
	m.keep(call)
	if want := string(transcriptOf(s.Messages)); m.has != want || m.calls != 3 {
		t.Errorf("after %d calls the machine has %d bytes of %d", m.calls, len(m.has), len(want))
	}
}

// keeper is a machine that stores transcripts as exec-daemon does.
type keeper struct {
	remote.Machine
	has   string
	calls int
}

func (k *keeper) Hooks(_ context.Context, _ *agent.State, call remote.HookCall) (remote.HookOutcome, error) {
	k.calls++
	k.keep(call)
	return remote.HookOutcome{Transcript: int64(len(k.has))}, nil
}

func (k *keeper) keep(call remote.HookCall) {
	if call.TranscriptAt == 0 || call.TranscriptAt == int64(len(k.has)) {
		k.has = k.has[:call.TranscriptAt] + string(call.Transcript)
	}
}
