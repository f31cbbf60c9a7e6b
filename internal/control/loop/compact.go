package loop

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

//go:embed prompts/compact.md
var compactPrompt string

// The conversation is compacted when it takes more than four fifths of the
// context window minus the room for a reply. The tail that is kept unchanged
// takes at most a fifth of the window.
const (
	fullNumerator, fullDenominator = 4, 5
	keepFraction                   = 5
	charsPerToken                  = 4 // average for English and code; used only until the model has reported a count
	messageTokens                  = 4 // overhead of a message besides its text
	longestQuote                   = 2000
	smallWindow                    = 1000 // tokens that every model's window has
)

// compactIfFull compacts the conversation if the next request would not fit.
func (t *thread) compactIfFull(ctx context.Context) error {
	if t.info.ContextWindow == 0 || t.size() < int64(t.info.ContextWindow)*fullNumerator/fullDenominator {
		return nil
	}
	return t.compact(ctx)
}

// size estimates the tokens of the next request: the last count that the model
// reported, plus what was added since.
func (t *thread) size() int64 {
	s := t.state()
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
			n += imageTokens * charsPerToken
		case b.Call != nil:
			n += len(b.Call.Args)
		case b.Result != nil:
			n += len(b.Result.Text) + imageTokens*charsPerToken*len(b.Result.Images)
		}
		n += len(b.Text)
	}
	return int64(n/charsPerToken) + messageTokens
}

// compact replaces all but the tail of the conversation with a summary by the
// model. Facts that must not depend on a summary follow it unchanged, see
// [thread.remembered].
func (t *thread) compact(ctx context.Context) error {
	s := t.state()
	messages := s.Messages
	room, window := t.size()/2, t.size() // at least half is removed, whatever the window
	if w := int64(t.info.ContextWindow); w > 0 {
		room, window = min(room, w/keepFraction), w
	}
	mostImages := int(window / imageShare / imageTokens)
	room -= int64(len(keptImages(messages, mostImages))) * imageTokens
	keep := tail(messages, room)
	old := messages[:len(messages)-keep]
	if len(old) < 2 {
		return &model.Error{Reason: model.TooLong, Message: "the last messages do not fit the model's context window"}
	}
	t.compacting(ctx)
	summary, used, err := t.summarize(ctx, old)
	if err != nil {
		return err
	}
	images := keptImages(old, mostImages)
	return t.record(ctx, &agent.Compacted{
		Summary: "The conversation up to here was summarized to save space.\n\n" + cut(summary, int(window/summaryShare)*charsPerToken),
		Memory:  t.remembered(s, window, len(agent.PromptImages(old))-len(images)),
		Images:  images, Keep: keep, Usage: used,
	})
}

// summarize asks the fast model for a summary of the messages if it can read as
// much as the agent's own model, and otherwise, or if that fails, the agent's
// own.
func (t *thread) summarize(ctx context.Context, old []conversation.Message) (summary string, used conversation.Usage, err error) {
	const purpose = "summary"
	own := answerer{t.model, t.info, purpose}
	c := t.fastModel(purpose)
	if c.info.ContextWindow < own.info.ContextWindow {
		c = own
	}
	isFast := c.info.Name() != own.info.Name()
	ask := func(c *answerer) (string, conversation.Usage, error) {
		quote := max(c.info.ContextWindow/2, smallWindow) * charsPerToken
		return t.askAside(ctx, c, model.Request{System: compactPrompt, Messages: []conversation.Message{
			conversation.Text(conversation.User, transcript(old, quote)),
		}})
	}
	if summary, used, err = ask(&c); err == nil || !isFast || ctx.Err() != nil {
		return summary, used, err
	}
	t.Logger.Warn("the fast model wrote no summary", "model", c.info.ID, "error", err)
	summary, more, err := ask(&own)
	return summary, used.Add(more), err
}

// tail returns how many of the last messages are kept, within room tokens. The
// tail begins with a message of the assistant, so that no result is kept
// without its call.
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

// transcript renders the messages as text of at most room bytes. It leaves out
// the middle if necessary.
func transcript(messages []conversation.Message, room int) string {
	var b strings.Builder
	for _, m := range messages {
		for _, block := range m.Blocks {
			switch {
			case block.Text != "":
				fmt.Fprintf(&b, "[%s] %s\n", m.Role, block.Text)
			case block.Call != nil:
				fmt.Fprintf(&b, "[call %s of %s] %s\n", block.Call.ID, block.Call.Name, cut(string(block.Call.Args), longestQuote))
			case block.Result != nil:
				fmt.Fprintf(&b, "[result of %s] %s\n", block.Result.CallID, cut(block.Result.Text, longestQuote))
			}
		}
	}
	return cut(b.String(), room)
}

// cut removes the middle of s so that at most n bytes of it remain.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n/2], "") + fmt.Sprintf("\n[… %d bytes left out …]\n", len(s)-n) + strings.ToValidUTF8(s[len(s)-n/2:], "")
}
