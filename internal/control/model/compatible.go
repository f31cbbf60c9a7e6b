package model

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
	"strings"

	"aloft/internal/conversation"
)

// Compatible returns messages in a form that the named model of the provider
// accepts, with the same content. It removes empty texts, reasoning of other
// models, reasoning that nothing follows, and results whose call is not in the
// previous message. It merges consecutive messages of one role, puts results
// first in their message, and makes the names, ids and arguments of calls valid
// for every provider. It does not modify its argument, and it is idempotent.
func Compatible(provider, name string, messages []conversation.Message) []conversation.Message {
	out := make([]conversation.Message, 0, len(messages))
	for _, m := range messages {
		var blocks []conversation.Block
		for _, b := range m.Blocks {
			if kept, ok := compatibleBlock(provider, name, b); ok {
				blocks = append(blocks, kept)
			}
		}
		out = append(out, conversation.Message{Role: m.Role, Blocks: blocks})
	}
	// Each pass may empty a message, which makes its neighbours adjacent. The
	// loop terminates because every change removes something.
	for {
		n := size(out)
		out = joinNeighbours(out)
		dropOrphans(out)
		dropTrailingThinking(out)
		if size(out) == n {
			break
		}
	}
	for i := range out {
		slices.SortStableFunc(out[i].Blocks, func(a, b conversation.Block) int { return rank(a) - rank(b) })
	}
	return out
}

func compatibleBlock(provider, name string, b conversation.Block) (conversation.Block, bool) {
	switch {
	case b.Thinking != nil:
		by := b.Thinking
		return b, by.Provider == provider && by.Opaque != "" && (by.Model == "" || by.Model == name)
	case b.Image != nil:
		return b, true
	case b.Call != nil:
		c := *b.Call
		c.ID, c.Args = compatibleID(c.ID), Object(c.Args)
		if !isToolName(c.Name) {
			c.Name = unknownTool
		}
		return conversation.Block{Call: &c}, true
	case b.Result != nil:
		r := *b.Result
		r.CallID, r.Text = compatibleID(r.CallID), strings.ToValidUTF8(r.Text, "\uFFFD")
		return conversation.Block{Result: &r}, true
	}
	b.Text = strings.ToValidUTF8(b.Text, "\uFFFD")
	return b, strings.TrimSpace(b.Text) != ""
}

// WithoutThinking returns req without the reasoning in its messages, and
// whether it had any. It does not modify req.
func WithoutThinking(provider string, req Request) (Request, bool) {
	found := false
	out := make([]conversation.Message, 0, len(req.Messages))
	for _, m := range req.Messages {
		m.Blocks = slices.DeleteFunc(slices.Clone(m.Blocks), func(b conversation.Block) bool { return b.Thinking != nil })
		out = append(out, m)
	}
	for i, m := range out {
		found = found || len(m.Blocks) < len(req.Messages[i].Blocks)
	}
	req.Messages, req.Cache = Compatible(provider, "", out), nil // the cache holds other messages
	return req, found
}

// Stream returns the events of one reply, which ask yields. If refused reports
// that the provider rejects the reasoning, Stream asks once more without it.
// ask returns an error instead of yielding it.
func Stream(provider, name string, req Request, refused func(error) bool, ask func(Request, func(Event, error) bool) error) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		req, err := req.Cache.Prepare(provider, name, req)
		if err != nil {
			yield(Event{}, err)
			return
		}
		err = ask(req, yield)
		if refused(err) {
			if bare, ok := WithoutThinking(provider, req); ok {
				err = ask(bare, yield)
			}
		}
		if err != nil {
			yield(Event{}, err)
		}
	}
}

const longestID = 40 // characters that every provider accepts

// unknownTool replaces the name of a call that no provider would accept.
const unknownTool = "unknown"

// compatibleID returns the id unchanged if all providers accept it, and
// otherwise a replacement derived from it.
func compatibleID(id string) string {
	if isWord(id, longestID) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

func size(messages []conversation.Message) int {
	n := len(messages)
	for _, m := range messages {
		n += len(m.Blocks)
	}
	return n
}

func joinNeighbours(messages []conversation.Message) []conversation.Message {
	out := messages[:0]
	for _, m := range messages {
		switch {
		case len(m.Blocks) == 0:
		case len(out) > 0 && out[len(out)-1].Role == m.Role:
			last := &out[len(out)-1]
			last.Blocks = append(slices.Clip(last.Blocks), m.Blocks...)
		default:
			out = append(out, m)
		}
	}
	return out
}

// dropOrphans removes results without a call in the previous message, duplicate
// results, and calls and results in messages of the wrong role.
func dropOrphans(messages []conversation.Message) {
	var waiting map[string]bool // calls of the previous message
	for i := range messages {
		m := &messages[i]
		var calls map[string]bool
		m.Blocks = slices.DeleteFunc(m.Blocks, func(b conversation.Block) bool {
			switch {
			case b.Result != nil && m.Role == conversation.User && waiting[b.Result.CallID]:
				delete(waiting, b.Result.CallID)
				return false
			case b.Result != nil:
				return true
			case b.Call != nil:
				if calls == nil {
					calls = map[string]bool{}
				}
				calls[b.Call.ID] = true
			}
			return (b.Call != nil || b.Thinking != nil) && m.Role != conversation.Assistant
		})
		waiting = calls
	}
}

// dropTrailingThinking removes reasoning that nothing follows, from a reply
// that was cut off. Providers require text or calls after it.
func dropTrailingThinking(messages []conversation.Message) {
	for i := range messages {
		b := messages[i].Blocks
		for len(b) > 0 && b[len(b)-1].Thinking != nil {
			b = b[:len(b)-1]
		}
		messages[i].Blocks = b
	}
}

// rank sorts results before other blocks. Only user messages contain results.
func rank(b conversation.Block) int {
	if b.Result != nil {
		return 0
	}
	return 1
}
