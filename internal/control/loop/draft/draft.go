// Package draft handles the tool calls of a reply before the journal has them: it
// shows their arguments while the model writes them, and makes complete calls
// valid for every provider.
package draft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"aloft/internal/control/live"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/redact"
	"aloft/internal/text"
)

// Reply identifies the reply that is being written.
type Reply struct {
	AgentID, RunID string
	Task           string // id of the call that started the subagent; "" for the agent
	Prefix         string // prefix of the calls' ids
}

// Draft shows clients the arguments of a reply's calls while the model writes
// them, with the agent's secrets redacted. It journals nothing, since the
// journaled reply will contain the arguments. The caller must call Clear.
type Draft struct {
	board   *live.Board
	reply   Reply
	secrets func() *redact.Redactor
	hide    *redact.Redactor          // nil before the first piece
	texts   map[string]*redact.Stream // redacted arguments, by the model's id for the call
}

// New returns the draft of a reply on a board; a nil board shows nothing. secrets
// is called once, when the first call begins.
func New(board *live.Board, r Reply, secrets func() *redact.Redactor) *Draft {
	return &Draft{board: board, reply: r, secrets: secrets, texts: map[string]*redact.Stream{}}
}

// Add shows a piece; it ignores nil. It delays text that may be the beginning
// of a secret; if a call's arguments end with such text, clients see that text
// only in the complete reply.
func (d *Draft) Add(a *model.ArgsDelta) {
	if a == nil || d.board == nil {
		return
	}
	text := d.texts[a.CallID]
	if text == nil {
		if len(d.texts) == live.MaxCalls {
			return
		}
		if d.hide == nil {
			d.hide = d.secrets()
		}
		text = d.hide.Stream()
		d.texts[a.CallID] = text
	}
	name := a.Name
	if !toolName.MatchString(name) {
		name = unknownTool
	}
	d.board.Write(d.reply.AgentID, live.Piece{
		RunID: d.reply.RunID, Task: d.reply.Task, CallID: CallID(d.reply.Prefix, a.Block), Name: name, Text: string(text.Next([]byte(a.JSON))),
	})
}

// Clear removes the calls from the board.
func (d *Draft) Clear() { d.board.Clear(d.reply.AgentID, d.reply.Task) }

// toolName matches the names that [model.Validate] accepts in a conversation.
var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// Adopt gives calls our own ids, because some servers reuse ids from one reply
// to the next. It replaces invalid names and arguments, which no provider would
// accept as input.
func Adopt(blocks []conversation.Block, prefix string) {
	for i := range blocks {
		c := blocks[i].Call
		if c == nil {
			continue
		}
		c.ID = CallID(prefix, i)
		if !toolName.MatchString(c.Name) {
			c.Name = unknownTool
		}
		var object map[string]json.RawMessage
		if len(c.Args) == 0 {
			c.Args = json.RawMessage("{}")
		} else if !new(text.Meter).Count(c.Args, 0, maxValues) || json.Unmarshal(c.Args, &object) != nil || object == nil {
			c.Args, _ = json.Marshal(map[string]string{notJSON: strings.ToValidUTF8(string(c.Args), "�")}) // marshaling a string cannot fail
		}
	}
}

// CallID returns the id of the call in a reply's n-th block, from 0.
func CallID(prefix string, n int) string { return fmt.Sprintf("%s_%d", prefix, n) }

// maxValues is the maximum number of JSON values in the arguments of a call. In a
// provider's stream the arguments are a string, whose values are not counted.
const maxValues = 50_000

// unknownTool replaces a name that is not valid for a tool.
const unknownTool = "unknown"

// notJSON is the key under which arguments that are not a JSON object are kept.
const notJSON = "not_json"

// NotObject reports whether the model's arguments of an adopted call were not a
// JSON object, or an object with too many values.
func NotObject(args json.RawMessage) bool { return bytes.HasPrefix(args, []byte(`{"`+notJSON+`":`)) }
