package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
)

// transcriptProgress tracks how much of the transcript for hooks the machine has.
type transcriptProgress struct {
	mu    sync.Mutex
	lines []byte // as sent; the machine has a prefix of them
}

// has records how many bytes the machine reports to have. If that is not what
// was sent, everything will be sent again.
func (t *transcriptProgress) has(size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if size != int64(len(t.lines)) {
		t.lines = nil
	}
}

// next returns the part of the lines to send, and its offset.
func (t *transcriptProgress) next(lines []byte) (more []byte, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !bytes.HasPrefix(lines, t.lines) { // the conversation was compacted or rewound
		t.lines = nil
	}
	at = int64(len(t.lines))
	more = lines[at:min(int64(len(lines)), at+maxTranscriptPiece)]
	t.lines = lines[:at+int64(len(more))]
	return more, at
}

// maxTranscriptPiece is how many bytes of a transcript are sent at once.
const maxTranscriptPiece = 1 << 20

// transcribe adds to a hook call the part of the transcript that the machine
// lacks. If that is too long for one message, it sends the beginning ahead.
func (t *thread) transcribe(ctx context.Context, s *agent.State, call *remote.HookCall) error {
	lines := transcriptOf(s.Messages)
	for {
		call.Transcript, call.TranscriptAt = t.told.next(lines)
		if call.TranscriptAt+int64(len(call.Transcript)) == int64(len(lines)) {
			return nil
		}
		out, err := t.machine.Hooks(ctx, s, remote.HookCall{Transcript: call.Transcript, TranscriptAt: call.TranscriptAt})
		if err != nil {
			return err
		}
		if out.Transcript != call.TranscriptAt+int64(len(call.Transcript)) {
			call.Transcript = nil // the machine cannot store it
			return nil
		}
	}
}

// transcriptOf returns a conversation in the form that hooks read: a line of
// JSON for each text, call or result, with secrets redacted as in the journal.
// Thoughts and images are left out.
func transcriptOf(messages []conversation.Message) []byte {
	type part struct {
		Type    string          `json:"type"`
		Text    string          `json:"text,omitempty"`
		ID      string          `json:"id,omitempty"`
		Name    string          `json:"name,omitempty"`
		Input   json.RawMessage `json:"input,omitempty"`
		Of      string          `json:"tool_use_id,omitempty"`
		Content string          `json:"content,omitempty"`
		Error   bool            `json:"is_error,omitempty"`
	}
	type message struct {
		Content []part `json:"content"`
	}
	type line struct {
		Role    conversation.Role `json:"role"`
		Message message           `json:"message"`
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, m := range messages {
		for _, block := range m.Blocks {
			var p part
			switch {
			case block.Call != nil:
				p = part{Type: "tool_use", ID: block.Call.ID, Name: block.Call.Name, Input: block.Call.Args}
				if !json.Valid(p.Input) {
					p.Input = nil
				}
			case block.Result != nil:
				p = part{Type: "tool_result", Of: block.Result.CallID, Content: block.Result.Text, Error: block.Result.Error}
			case block.Text != "":
				p = part{Type: "text", Text: block.Text}
			default:
				continue
			}
			_ = enc.Encode(line{m.Role, message{[]part{p}}}) // cannot fail: writing to a buffer, and the arguments are JSON
		}
	}
	return b.Bytes()
}
