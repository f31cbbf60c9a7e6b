// Package compact decides which messages of a conversation a compaction keeps,
// and which a summary replaces. It calls no model.
package compact

import (
	"cmp"
	_ "embed"
	"fmt"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

//go:embed prompts/compact.md
var compactPrompt string

// A conversation is compacted when it takes more than four fifths of the
// context window, not counting the space for a reply. The tail that is kept
// unchanged takes at most a fifth of the window.
const (
	fullNumerator, fullDenominator = 4, 5
	keepFraction                   = 5
	messageTokens                  = 4    // overhead of a message besides its text
	smallWindow                    = 1000 // minimum context window of a model, in tokens
)

// quotes are the maximum lengths of the arguments and of the result of a call in the
// transcript for a summary, in bytes. The first with which the transcript fits is used.
var quotes = []int{2000, 1000, 500, 250, 120}

// CharsPerToken is the average for English and code. It is used until the model
// reports a count.
const CharsPerToken = 4

// IsFull reports whether the next request is too large for a context window of
// the given number of tokens; 0 means unknown.
func IsFull(s *agent.State, window int) bool {
	return window != 0 && Size(s) >= int64(window)*fullNumerator/fullDenominator
}

// Size estimates the tokens of the next request: the last count that the model
// reported, plus what was added since.
func Size(s *agent.State) int64 {
	if s.Context > 0 {
		return s.Context + estimate(s.Messages[len(s.Messages)-1])
	}
	var n int64
	for _, m := range s.Messages {
		n += estimate(m)
	}
	return n
}

func estimate(m conversation.Message) int64 {
	var n int
	for _, b := range m.Blocks {
		switch {
		case b.Image != nil:
			n += imageTokens * CharsPerToken
		case b.Call != nil:
			n += len(b.Call.Args)
		case b.Result != nil:
			n += len(b.Result.Text) + imageTokens*CharsPerToken*len(b.Result.Images)
		}
		n += len(b.Text)
	}
	return int64(n/CharsPerToken) + messageTokens
}

// A Plan lists the messages that a compaction keeps and those that it replaces.
type Plan struct {
	// Old lists the messages that a summary replaces. The others are kept.
	Old []conversation.Message

	state      *agent.State
	task       string
	window     int64
	mostImages int
}

// New plans the compaction of a conversation: the agent's own, or that of the
// subagent started by the call task. window is the model's context window in
// tokens, or 0. It returns false if the last messages do not fit the window, so
// a compaction would not help.
func New(s *agent.State, task string, window int) (Plan, bool) {
	messages := s.Messages
	p := Plan{state: s, task: task, window: Size(s)}
	room := p.window / 2 // remove at least half, regardless of the window
	if w := int64(window); w > 0 {
		room, p.window = min(room, w/keepFraction), w
	}
	p.mostImages = int(p.window / imageShare / imageTokens)
	room -= int64(len(keptImages(messages, p.mostImages))) * imageTokens
	p.Old = messages[:len(messages)-tail(messages, room)]
	return p, len(p.Old) >= 2
}

// Request returns the request for a summary, for a model with a context window
// of the given number of tokens.
func (p Plan) Request(window int) model.Request {
	quote := max(window/2, smallWindow) * CharsPerToken
	return model.Request{System: compactPrompt, Messages: []conversation.Message{
		conversation.Text(conversation.User, transcript(p.Old, quote)),
	}}
}

// Done returns the event of the compaction, with the summary and the usage of
// its requests. Facts that must not depend on a summary are appended unchanged.
func (p Plan) Done(summary string, used conversation.Usage) *agent.Compacted {
	images := keptImages(p.Old, p.mostImages)
	return &agent.Compacted{
		Summary: "The conversation up to here was summarized to save space.\n\n" + Cut(summary, int(p.window/summaryShare)*CharsPerToken),
		Memory:  remembered(p.state, p.task, p.window, len(agent.PromptImages(p.Old))-len(images)),
		Images:  images, Keep: len(p.state.Messages) - len(p.Old), Usage: used,
	}
}

// tail returns how many of the last messages are kept, within the given number
// of tokens. The tail begins with a message of the assistant, so that no result
// is kept without its call.
func tail(messages []conversation.Message, room int64) int {
	keep := 0
	var n int64
	for i := len(messages) - 1; i > 0; i-- {
		n += estimate(messages[i])
		if n > room {
			break
		}
		if messages[i].Role == conversation.Assistant {
			keep = len(messages) - i
		}
	}
	return keep
}

// transcript renders the messages as text of at most room bytes. It shortens the
// arguments and the results of calls as far as necessary, so that no message is missing.
// Only if the shortest form does not fit, it leaves out the middle.
func transcript(messages []conversation.Message, room int) (text string) {
	for _, quote := range quotes {
		if text = render(messages, quote); len(text) <= room {
			return text
		}
	}
	return Cut(text, room)
}

// render renders the messages with at most quote bytes of the arguments and of the result
// of each call.
func render(messages []conversation.Message, quote int) string {
	var b strings.Builder
	names := map[string]string{} // of tools, by call
	for _, m := range messages {
		for _, block := range m.Blocks {
			switch {
			case block.Text != "":
				fmt.Fprintf(&b, "[%s] %s\n", m.Role, block.Text)
			case block.Call != nil:
				names[block.Call.ID] = block.Call.Name
				fmt.Fprintf(&b, "[call] %s %s\n", block.Call.Name, Cut(string(block.Call.Args), quote))
			case block.Result != nil:
				fmt.Fprintf(&b, "[result of %s] %s\n", cmp.Or(names[block.Result.CallID], "a call"), Cut(block.Result.Text, quote))
			}
		}
	}
	return b.String()
}

// Cut removes the middle of s so that at most n bytes of it remain, and
// replaces it by a note about how much was removed. A negative n means 0.
func Cut(s string, n int) string {
	if n = max(n, 0); len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n/2], "") + fmt.Sprintf("\n[… %d bytes left out …]\n", len(s)-n) + strings.ToValidUTF8(s[len(s)-n/2:], "")
}
