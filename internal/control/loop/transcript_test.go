package loop

import (
	"context"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/loop/transcript"
	"aloft/internal/conversation"
	"aloft/internal/hook"
)

// TestTranscribeSendsLongOnesAhead checks that a conversation too long for the
// hook call is sent before it.
func TestTranscribeSendsLongOnesAhead(t *testing.T) {
	t.Parallel()
	m := &keeper{}
	l := &thread{Loop: &Loop{}, machine: m}
	s := &agent.State{Thread: agent.Thread{Messages: []conversation.Message{conversation.Text(conversation.User, strings.Repeat("x", 3*transcript.MaxPiece))}}}
	var call hook.Call
	if err := l.transcribe(t.Context(), s, &call); err != nil {
		t.Fatal(err)
	}
	m.keep(call)
	if want := string(transcript.Of(s.Messages)); m.has != want || m.calls != 3 {
		t.Errorf("after %d calls the machine has %d bytes of %d", m.calls, len(m.has), len(want))
	}
}

// keeper is a machine that stores transcripts as exec-daemon does.
type keeper struct {
	remote.Machine
	has   string
	calls int
}

func (k *keeper) Hooks(_ context.Context, _ *agent.State, call hook.Call) (hook.Outcome, error) {
	k.calls++
	k.keep(call)
	return hook.Outcome{Transcript: int64(len(k.has))}, nil
}

func (k *keeper) keep(call hook.Call) {
	if call.TranscriptAt == 0 || call.TranscriptAt == int64(len(k.has)) {
		k.has = k.has[:call.TranscriptAt] + string(call.Transcript)
	}
}
