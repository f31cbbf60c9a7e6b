package cli

import (
	"fmt"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/conversation"
)

// indent is the indentation of a subagent's lines.
const indent = "  "

// taskBegan shows that a subagent has started.
func (t *Transcript) taskBegan(b *agent.TaskBegan, at time.Time) {
	t.doing.set(b.Type+": "+Line(b.Description, 80), at)
	what := b.Description
	if b.Background {
		what += " (in the background)"
	}
	t.line(Dim, ">", Line(b.Type, 40), what, 0)
}

// taskEnded shows that a background subagent has ended. Its tool call returned earlier.
func (t *Transcript) taskEnded(b *agent.TaskEnded) {
	if head, _, _ := strings.Cut(b.Told, "\n"); head != "" {
		t.line(Dim, "<", "told", head, time.Duration(b.DurationMS)*time.Millisecond)
	}
}

// printSubagent shows a subagent's event, indented below its tool call. It
// prints complete messages instead of streaming them, because several subagents
// may write at once.
func (t *Transcript) printSubagent(body agent.Body, at time.Time) {
	t.indent = indent
	defer func() { t.indent = "" }()
	switch b := body.(type) {
	case *agent.TurnReplied:
		for _, block := range b.Message.Blocks {
			if text := strings.TrimSpace(Clean(block.Text)); text != "" {
				t.out.Line("%s", indent+strings.ReplaceAll(text, "\n", "\n"+indent))
			}
		}
		t.calling(b.Message)
	case *agent.CallSent:
		t.sent(b.CallID, at)
	case *agent.CallDone:
		t.done(b, at)
	case *agent.ModelRetry:
		t.line(Yellow, "~", "retry", retryReason(b), 0)
	case *agent.ModelFallback:
		t.line(Yellow, "!", "model", fallbackText(b), 0)
	case *agent.Compacted:
		t.line(Dim, "~", "note", "the subagent's conversation was long: summarized its beginning", 0)
	}
}

// calling records the tool calls of a reply.
func (t *Transcript) calling(m conversation.Message) {
	for _, c := range m.Calls() {
		t.calls[c.ID] = &toolCall{name: Line(c.Name, 40), about: about(c.Args)}
	}
}

// fallbackText names the model that answers instead of a busy model.
func fallbackText(b *agent.ModelFallback) string {
	words := fmt.Sprintf("%s is busy (attempts: %d); %s answers", b.From, b.Attempts, b.To)
	if b.Purpose != "" {
		return words + " for the " + b.Purpose
	}
	return words + " until the run ends"
}
