// Package scripted is a model that plays a script. It needs no key and no
// network: the demonstration, the benchmarks and the tests of the whole product
// run on it. It rejects the requests that real providers reject.
//
// # Stateless
//
// The reply follows from the request alone: the newest prompt selects the
// script, and the number of replies since that prompt selects the turn. So a
// repeated request, even from another process, gets the same reply with the
// same call ids. Only failures are counted, in memory: each occurs once per
// model that plays the script. When a conversation was summarised, its position
// is in the summary, which this model wrote.
//
// # A script file
//
// A script file is YAML or JSON. Unknown keys are errors.
//
//	scripts:
//	  - match: 'fix (\S+)'        # regular expression for the prompt; default: every prompt. The first script that matches is played
//	    repeat: true              # start again after the last turn; default: reply "Done."
//	    turns:
//	      - thinking: "What does {{prompt}} want?"
//	        text: "I look at {{match 1}}."
//	        calls:
//	          - tool: Read
//	            args: {path: "{{match 1}}"}
//	        chunk: 4              # characters per streamed piece; default 24
//	        delay: 20ms           # delay before each piece
//	        usage: {input: 900, output: 40, cacheRead: 0, cacheWrite: 0}
//	      - fail:                 # failures before the turn is played, one per request
//	          - {status: 529}     # HTTP status: 401, 404, 413, 429, 5xx, …
//	          - {status: 429, retryAfter: 50ms, message: slow down}
//	          - {cut: true}       # the stream ends in the middle
//	          - {unreachable: true}
//	          - {status: 500, always: true} # from now on, every request fails in this way
//	        text: "It said: {{find `(\\d+) passed`}}"
//	        stop: refusal         # end, length or refusal; always calls if the turn has calls
//
// Text, thinking and the strings in args are templates (text/template) with
// these functions:
//
//	prompt     the newest prompt
//	match N    the N-th group of match
//	result N   the text of the previous turn's N-th result, from 0
//	results    the texts of all results of the previous turn
//	find RE    the first group of the regular expression RE in results, or ""
//	turn       the number of the turn, from 0
package scripted

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"text/template"
	"time"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// provider is the name under which conversations store this model's reasoning.
const provider = "scripted"

//go:embed demo.yaml
var demo []byte

// Config selects the script.
type Config struct {
	File string // a script file; "" is the built-in demo
	Text []byte // text of the file, if it was already read; otherwise nil
}

// New returns the model that plays cfg.File. The error names the file and the
// line.
func New(cfg Config) (model.Model, error) {
	data := demo
	if cfg.Text != nil {
		data = cfg.Text
	} else if cfg.File != "" {
		var err error
		if data, err = os.ReadFile(cfg.File); err != nil {
			return nil, fmt.Errorf("script: %w", err)
		}
	}
	s, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", cfg.File, err)
	}
	return Play(s), nil
}

// Endless returns a model that calls Shell with the command true, turn after
// turn: n times, or forever if n is 0.
func Endless(n int) model.Model {
	call := Turn{Calls: []Call{{Tool: "Shell", Args: map[string]any{"command": "true"}}}}
	one := Script{Turns: []Turn{call}, Repeat: n == 0}
	for range n - 1 {
		one.Turns = append(one.Turns, call)
	}
	return Play(&File{Scripts: []Script{one}})
}

// Play returns a model that plays a script.
func Play(f *File) model.Model {
	return &player{file: f, failed: map[string]int{}}
}

type player struct {
	file *File

	mu     sync.Mutex
	failed map[string]int // number of failures so far, by turn of a conversation
}

// Stream implements [model.Model].
func (p *player) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if ctx.Err() != nil {
			yield(model.Event{}, context.Cause(ctx))
			return
		}
		if _, err := req.Cache.Prepare(provider, "", req); err != nil {
			yield(model.Event{}, err)
			return
		}
		at := find(p.file, req)
		turn, err := at.render()
		if err != nil {
			yield(model.Event{}, &model.Error{Reason: model.BadRequest, Message: err.Error()})
			return
		}
		failure := p.fail(at, turn)
		if failure != nil && !failure.Cut {
			yield(model.Event{}, failure.error())
			return
		}
		events := turn.events(at, req)
		for i, ev := range events {
			if failure != nil && i >= len(events)/2 {
				yield(model.Event{}, model.CutShort())
				return
			}
			if !wait(ctx, time.Duration(turn.Delay)) {
				yield(model.Event{}, context.Cause(ctx))
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// fail returns the next failure before the turn, or nil.
func (p *player) fail(at position, turn Turn) *Fail {
	if len(turn.Fail) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.failed[at.key]
	if n >= len(turn.Fail) {
		return nil
	}
	f := turn.Fail[n]
	if !f.Always {
		p.failed[at.key]++
	}
	return &f
}

func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// render executes the templates of the turn.
func (at position) render() (Turn, error) {
	if at.summary != "" {
		return Turn{Text: at.summary}, nil
	}
	if at.script == nil {
		return Turn{Text: "The script has no reply to that."}, nil
	}
	n := at.turn
	if at.script.Repeat {
		n %= len(at.script.Turns)
	}
	if n >= len(at.script.Turns) {
		return Turn{Text: "Done."}, nil
	}
	turn := at.script.Turns[n]
	var err error
	if turn.Text, err = at.fill(turn.Text); err != nil {
		return Turn{}, err
	}
	if turn.Thinking, err = at.fill(turn.Thinking); err != nil {
		return Turn{}, err
	}
	calls := turn.Calls
	turn.Calls = nil
	for _, c := range calls {
		args, err := at.fillValue(c.Args)
		if err != nil {
			return Turn{}, err
		}
		turn.Calls = append(turn.Calls, Call{Tool: c.Tool, Args: args.(map[string]any)})
	}
	return turn, nil
}

func (at position) fill(text string) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	t, err := template.New("script").Funcs(at.funcs()).Parse(text)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, nil); err != nil {
		return "", err
	}
	return b.String(), nil
}

func (at position) fillValue(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return at.fill(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			filled, err := at.fillValue(e)
			if err != nil {
				return nil, err
			}
			out[k] = filled
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			filled, err := at.fillValue(e)
			if err != nil {
				return nil, err
			}
			out[i] = filled
		}
		return out, nil
	}
	return v, nil
}

// events returns the pieces of a turn and its complete reply.
func (t Turn) events(at position, req model.Request) []model.Event {
	var out []model.Event
	m := conversation.Message{Role: conversation.Assistant}
	if t.Thinking != "" {
		for _, p := range pieces(t.Thinking, t.Chunk) {
			out = append(out, model.Event{Thinking: p})
		}
		m.Blocks = append(m.Blocks, conversation.Block{Thinking: &conversation.Thinking{
			Text: t.Thinking, Provider: provider, Opaque: "scripted"}})
	}
	if t.Text != "" {
		for _, p := range pieces(t.Text, t.Chunk) {
			out = append(out, model.Event{Text: p})
		}
		m.Blocks = append(m.Blocks, conversation.Block{Text: t.Text})
	}
	for i, c := range t.Calls {
		id := at.callID(i)
		args, _ := json.Marshal(c.Args) // cannot fail: decoded from YAML with string keys
		for _, p := range pieces(string(args), t.Chunk) {
			out = append(out, model.Event{Args: &model.ArgsDelta{CallID: id, Name: c.Tool, JSON: p, Block: len(m.Blocks)}})
		}
		m.Blocks = append(m.Blocks, conversation.Block{Call: &conversation.ToolCall{ID: id, Name: c.Tool, Args: args}})
	}
	stop := t.Stop
	if stop == "" {
		stop = model.StopEnd
		if len(t.Calls) > 0 {
			stop = model.StopCalls
		}
	}
	usage := t.Usage
	if usage == (conversation.Usage{}) {
		usage = guess(req, m)
	}
	return append(out, model.Event{Done: &model.Reply{Message: m, Stop: stop, Usage: usage}})
}

// callID returns the id of a call: the same for the same request, and unique
// within the conversation.
func (at position) callID(index int) string {
	sum := sha256.Sum256([]byte(at.key))
	return fmt.Sprintf("call_%d_%d_%d_%s", at.number, at.turn, index, hex.EncodeToString(sum[:4]))
}

// guess estimates token counts so that usage grows realistically: all but the
// last two messages count as cached.
func guess(req model.Request, reply conversation.Message) conversation.Usage {
	var u conversation.Usage
	for i, m := range req.Messages {
		if n := tokens(m); i < len(req.Messages)-2 {
			u.CacheRead += n
		} else {
			u.Input += n
		}
	}
	u.Input += int64(len(req.System) / 4)
	u.Output = tokens(reply) + 1
	return u
}

func tokens(m conversation.Message) int64 {
	n := 16
	for _, b := range m.Blocks {
		n += len(b.Text)
		switch {
		case b.Call != nil:
			n += len(b.Call.Args)
		case b.Result != nil:
			n += len(b.Result.Text)
		case b.Thinking != nil:
			n += len(b.Thinking.Text)
		}
	}
	return int64(n / 4)
}

// pieces splits s into pieces of size runes.
func pieces(s string, size int) []string {
	if size <= 0 {
		size = 24
	}
	var out []string
	for runes := []rune(s); len(runes) > 0; {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}
