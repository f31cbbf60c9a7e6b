package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"aloft/internal/agent"
	"aloft/internal/conversation"
)

// told is what the machine has of the transcript that hooks find there.
type told struct {
	mu    sync.Mutex
	lines []byte // as they were sent; the machine has the first of them
}

// has notes how much the machine says that it has. Where that is not what was
// sent, all is sent anew.
func (t *told) has(size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if size != int64(len(t.lines)) {
		t.lines = nil
	}
}

// next is what is to be sent of the lines, and from where on.
func (t *told) next(lines []byte) (more []byte, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !bytes.HasPrefix(lines, t.lines) { // it was summarised, or taken back
		t.lines = nil
	}
	at = int64(len(t.lines))
	more = lines[at:min(int64(len(lines)), at+maxTranscriptPiece)]
	t.lines = lines[:at+int64(len(more))]
	return more, at
}

// maxTranscriptPiece bounds, in bytes, what is sent of a transcript at once.
const maxTranscriptPiece = 1 << 20

// transcribe adds to a call what the machine lacks of the transcript; what is too
// long for that goes before it.
func (t *talk) transcribe(ctx context.Context, s *agent.State, call *HookCall) error {
	lines := transcriptOf(s.Messages)
	for {
		call.Transcript, call.TranscriptAt = t.told.next(lines)
		if call.TranscriptAt+int64(len(call.Transcript)) == int64(len(lines)) {
			return nil
		}
		out, err := t.hands.Hooks(ctx, s, HookCall{Transcript: call.Transcript, TranscriptAt: call.TranscriptAt})
		if err != nil {
			return err
		}
		if out.Transcript != call.TranscriptAt+int64(len(call.Transcript)) {
			call.Transcript = nil // it cannot be kept there
			return nil
		}
	}
}

// transcriptOf is a conversation as hooks read it: a line for each thing that was
// said, called or answered, as the journal has it, from which secrets are gone.
// Thoughts and pictures are left out.
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
			_ = enc.Encode(line{m.Role, message{[]part{p}}}) // a buffer takes all, and the arguments are JSON
		}
	}
	return b.Bytes()
}
