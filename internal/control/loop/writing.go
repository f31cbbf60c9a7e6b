package loop

import (
	"aloft/internal/agent"
	"aloft/internal/control/live"
	"aloft/internal/control/model"
	"aloft/internal/redact"
)

// writing shows clients the arguments of a reply's calls while the model writes
// them, with the agent's secrets redacted. It journals nothing, since the reply
// will have them. The caller must call clear.
type writing struct {
	board   *live.Board
	agentID string
	runID   string
	task    string
	prefix  string // of the calls' ids
	secrets func() *redact.Redactor
	hide    *redact.Redactor          // nil before the first piece
	texts   map[string]*redact.Stream // by the model's id for the call
}

func (t *thread) writing(s *agent.State) *writing {
	return &writing{
		board: t.Live, agentID: s.Agent.ID, runID: s.Run.ID, task: t.task, prefix: t.prefix(s), texts: map[string]*redact.Stream{},
		secrets: func() *redact.Redactor {
			if t.Secrets == nil {
				return nil
			}
			return t.Secrets(s)
		},
	}
}

// add shows a piece; it ignores nil. Text that may be the beginning of a secret
// is not shown yet; if a call's arguments end with such text, clients see it
// only with the complete reply.
func (w *writing) add(d *model.ArgsDelta) {
	if d == nil || w.board == nil {
		return
	}
	text := w.texts[d.CallID]
	if text == nil {
		if len(w.texts) == live.MaxCalls {
			return
		}
		if w.hide == nil {
			w.hide = w.secrets()
		}
		text = w.hide.Stream()
		w.texts[d.CallID] = text
	}
	name := d.Name
	if !toolName.MatchString(name) {
		name = unknownTool
	}
	w.board.Write(w.agentID, live.Piece{
		RunID: w.runID, Task: w.task, CallID: callID(w.prefix, d.Block), Name: name, Text: string(text.Next([]byte(d.JSON))),
	})
}

// clear removes the calls from the board.
func (w *writing) clear() { w.board.Clear(w.agentID, w.task) }
