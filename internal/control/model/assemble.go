package model

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/conversation"
)

// Limits of one reply. They keep a hostile server from using much memory, and
// keep the cost of assembling a reply proportional to its length. The longest
// replies of models have 128,000 tokens, about 512 KiB.
const (
	maxHeld  = 8 << 20   // bytes of text, reasoning, arguments, names and ids
	maxArgs  = 4 << 20   // bytes of the arguments of one call
	maxParts = 1000      // texts, reasoning and calls
	maxCalls = 256       // OpenAI allows 128 calls in a reply
	maxWhole = 256 << 20 // bytes of arguments that [Assembly.Whole] parses
)

// An Assembly assembles a reply from the pieces of a stream. Each part has a
// key that the provider chooses, and keeps the position of its first piece.
// Methods that take a piece return the Event to yield, and whether there is
// one. A piece that exceeds a limit is dropped; then [Assembly.Err] returns an
// error.
type Assembly struct {
	provider string
	name     string // name of the model
	asked    []conversation.Message
	parts    []*part
	byKey    map[string]*part
	parsed   int // bytes of arguments
	held     int // bytes of all pieces
	calls    int
	err      error // the limit that was exceeded
}

type part struct {
	text, thinking, args strings.Builder
	opaque               string
	id, name             string
	isThinking, isCall   bool
}

// NewAssembly starts a reply to req of the named model of the provider.
func NewAssembly(provider, name string, req Request) *Assembly {
	return &Assembly{provider: provider, name: name, asked: req.Messages, byKey: map[string]*part{}}
}

// isUsed reports whether the conversation or the reply has a call with that id.
func (a *Assembly) isUsed(id string) bool {
	if slices.ContainsFunc(a.parts, func(p *part) bool { return p.isCall && p.id == id }) {
		return true
	}
	for _, m := range a.asked {
		for _, b := range m.Blocks {
			if b.Call != nil && b.Call.ID == id {
				return true
			}
		}
	}
	return false
}

// Err returns an [*Error] if the reply has exceeded a limit. The caller must then
// end the stream with it.
func (a *Assembly) Err() error { return a.err }

// exceed records which limit the reply has exceeded.
func (a *Assembly) exceed(format string, limit int) {
	if a.err == nil {
		a.err = &Error{Reason: BadReply, Message: fmt.Sprintf(format, limit)}
	}
}

// hold counts n more bytes, and reports whether the reply stays within its
// limit.
func (a *Assembly) hold(n int) bool {
	if n > maxHeld-a.held {
		a.exceed("the reply is longer than %d MiB", maxHeld>>20)
	}
	if a.err != nil {
		return false
	}
	a.held += n
	return true
}

func (a *Assembly) part(key string) *part {
	p, ok := a.byKey[key]
	if !ok {
		p = &part{}
		if len(a.parts) >= maxParts {
			a.exceed("the reply has more than %d parts", maxParts)
			return p
		}
		a.byKey[key] = p
		a.parts = append(a.parts, p)
	}
	return p
}

// Text adds a piece of text.
func (a *Assembly) Text(key, piece string) (Event, bool) {
	if piece == "" || !a.hold(len(piece)) {
		return Event{}, false
	}
	a.part(key).text.WriteString(piece)
	return Event{Text: piece}, true
}

// Thinking adds a piece of reasoning.
func (a *Assembly) Thinking(key, piece string) (Event, bool) {
	if !a.hold(len(piece)) {
		return Event{}, false
	}
	p := a.part(key)
	p.isThinking = true
	p.thinking.WriteString(piece)
	return Event{Thinking: piece}, piece != ""
}

// Opaque sets the data that must be sent back to the provider with the
// reasoning.
func (a *Assembly) Opaque(key, opaque string) {
	if !a.hold(len(opaque)) {
		return
	}
	p := a.part(key)
	p.isThinking = true
	p.opaque = opaque
}

// Call starts a call. Call replaces a missing or duplicate id by a random one,
// because some local servers send no ids, or count from 0 in every reply.
func (a *Assembly) Call(key, id, name string) {
	p := a.part(key)
	if p.isCall {
		if p.name == "" && a.hold(len(name)) {
			p.name = name
		}
		return
	}
	if a.calls++; a.calls > maxCalls {
		a.exceed("the reply has more than %d tool calls", maxCalls)
	}
	if !a.hold(len(id) + len(name)) {
		return
	}
	if !isWord(id, longestID) || len(id) < 8 || a.isUsed(id) {
		id = "call_" + rand.Text()
	}
	p.isCall, p.id, p.name = true, id, name
}

// Args adds a piece of the arguments of a call that was started.
func (a *Assembly) Args(key, piece string) (Event, bool) {
	p, ok := a.byKey[key]
	if !ok || !p.isCall || piece == "" {
		return Event{}, false
	}
	if len(piece) > maxArgs-p.args.Len() {
		a.exceed("the arguments of a tool call are longer than %d MiB", maxArgs>>20)
	}
	if !a.hold(len(piece)) {
		return Event{}, false
	}
	p.args.WriteString(piece)
	return Event{Args: &ArgsDelta{CallID: p.id, Name: p.name, JSON: piece, Block: a.block(p)}}, true
}

// block returns the index of the block that the part will become, given the
// parts so far.
func (a *Assembly) block(of *part) (n int) {
	for _, p := range a.parts {
		if p == of {
			break
		}
		if p.hasContent() {
			n++
		}
	}
	return n
}

// hasContent reports whether the part becomes a block of the message.
func (p *part) hasContent() bool {
	return p.isCall || p.isThinking && (p.thinking.Len() > 0 || p.opaque != "") || p.text.Len() > 0
}

// Whole reports whether the arguments of the call received so far are valid
// JSON. It returns false once it has parsed maxWhole bytes.
func (a *Assembly) Whole(key string) bool {
	p, ok := a.byKey[key]
	if !ok || a.parsed > maxWhole {
		return false
	}
	a.parsed += p.args.Len()
	return json.Valid([]byte(p.args.String()))
}

// Len returns the length of the call's arguments so far, in bytes.
func (a *Assembly) Len(key string) int {
	if p, ok := a.byKey[key]; ok {
		return p.args.Len()
	}
	return 0
}

// Reply completes the reply. If it has calls and ended normally, its stop
// reason is StopCalls, regardless of the provider's stop reason.
func (a *Assembly) Reply(stop Stop, usage conversation.Usage) Event {
	m := conversation.Message{Role: conversation.Assistant}
	for _, p := range a.parts {
		switch {
		case p.isCall:
			m.Blocks = append(m.Blocks, conversation.Block{
				Call: &conversation.ToolCall{ID: p.id, Name: p.name, Args: argsOf(p.args.String())}})
		case p.isThinking && (p.thinking.Len() > 0 || p.opaque != ""):
			m.Blocks = append(m.Blocks, conversation.Block{
				Thinking: &conversation.Thinking{Text: p.thinking.String(), Provider: a.provider, Model: a.name, Opaque: p.opaque}})
		case p.text.Len() > 0:
			m.Blocks = append(m.Blocks, conversation.Block{Text: p.text.String()})
		}
	}
	if calls := len(m.Calls()) > 0; calls && stop == StopEnd {
		stop = StopCalls
	} else if !calls && stop == StopCalls {
		stop = StopEnd
	}
	return Event{Done: &Reply{Message: m, Stop: stop, Usage: Plausible(usage)}}
}

// maxTokens limits each count of a reply's usage, so that the sums of a team's
// usage do not overflow.
const maxTokens = 1_000_000_000

// Plausible returns the usage that a provider reports with each count limited
// to between 0 and maxTokens. A negative count would refund an allowance.
func Plausible(u conversation.Usage) conversation.Usage {
	for _, n := range []*int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite} {
		*n = min(max(*n, 0), maxTokens)
	}
	return u
}

// argsOf returns the arguments unchanged if they are valid JSON, and otherwise
// as a JSON string, so that the call can be stored and checked.
func argsOf(s string) json.RawMessage {
	if strings.TrimSpace(s) == "" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	b, _ := json.Marshal(s) // marshaling a string cannot fail
	return b
}
