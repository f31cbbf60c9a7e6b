// Package transcript writes conversations in the form that hooks read, and
// tracks which part of a transcript a machine already has.
package transcript

import (
	"bytes"
	"encoding/json"
	"sync"

	"aloft/internal/conversation"
)

// Progress tracks how much of a transcript a machine has. The zero value means
// that the machine has nothing. It is safe for concurrent use.
type Progress struct {
	mu    sync.Mutex
	lines []byte // the transcript as sent; the machine has a prefix of it
}

// Has records how many bytes of the transcript the machine has. If the number
// differs from the bytes sent, the whole transcript is sent again.
func (t *Progress) Has(size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if size != int64(len(t.lines)) {
		t.lines = nil
	}
}

// Next returns the part of the lines to send, and its offset.
func (t *Progress) Next(lines []byte) (more []byte, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !bytes.HasPrefix(lines, t.lines) { // the conversation was compacted or rewound
		t.lines = nil
	}
	at = int64(len(t.lines))
	more = lines[at:min(int64(len(lines)), at+MaxPiece)]
	t.lines = lines[:at+int64(len(more))]
	return more, at
}

// MaxPiece is how many bytes of a transcript are sent at once.
const MaxPiece = 1 << 20

// Of returns a conversation in the form that hooks read: a line of
// JSON for each text, call or result, with secrets redacted as in the journal.
// Thoughts and images are left out.
func Of(messages []conversation.Message) []byte {
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
