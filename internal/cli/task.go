package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// indent is the indentation of a subagent's lines.
const indent = "  "

// taskBegan shows that a subagent has started.
func (t *Transcript) taskBegan(b body, at time.Time) {
	t.doing.set(b.Type+": "+Line(b.Description, 80), at)
	what := b.Description
	if b.Background {
		what += " (in the background)"
	}
	t.line(Dim, ">", Line(b.Type, 40), what, 0)
}

// taskEnded shows that a background subagent has ended. Its tool call returned earlier.
func (t *Transcript) taskEnded(b body) {
	if head, _, _ := strings.Cut(b.Told, "\n"); head != "" {
		t.line(Dim, "<", "told", head, time.Duration(b.DurationMS)*time.Millisecond)
	}
}

// printSubagent shows a subagent's event, indented below its tool call. Messages are shown
// whole rather than streamed, because several subagents may write at once.
func (t *Transcript) printSubagent(outer body, at time.Time) {
	var b body
	if json.Unmarshal(outer.Data, &b) != nil {
		return
	}
	t.indent = indent
	defer func() { t.indent = "" }()
	switch outer.Kind {
	case "turn.replied":
		var m message
		if json.Unmarshal(b.Message, &m) != nil {
			return
		}
		for _, block := range m.Blocks {
			if text := strings.TrimSpace(Clean(block.Text)); text != "" {
				t.out.Line("%s", indent+strings.ReplaceAll(text, "\n", "\n"+indent))
			}
		}
		t.calling(m)
	case "call.sent":
		t.sent(b.CallID, at)
	case "call.done":
		t.done(b, at)
	case "model.retry":
		t.line(Yellow, "~", "retry", t.retryReason(b), 0)
	case "model.fallback":
		t.line(Yellow, "!", "model", fallbackText(b), 0)
	case "compacted":
		t.line(Dim, "~", "note", "the subagent's conversation was long: summarized its beginning", 0)
	}
}

// calling records the tool calls of a reply.
func (t *Transcript) calling(m message) {
	for _, block := range m.Blocks {
		if c := block.Call; c != nil {
			t.calls[c.ID] = &toolCall{name: Line(c.Name, 40), about: about(c.Args)}
		}
	}
}

// fallbackText says which model answers instead of a busy one.
func fallbackText(b body) string {
	words := fmt.Sprintf("%s is busy (attempts: %d); %s answers", text(b.From), b.Attempts, text(b.To))
	if b.Purpose != "" {
		return words + " for the " + b.Purpose
	}
	return words + " until the run ends"
}
