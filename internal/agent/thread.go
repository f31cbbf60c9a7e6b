package agent

import (
	"slices"

	"aloft/internal/agent/repeat"
	"aloft/internal/conversation"
	"aloft/internal/rule"
)

// A Thread is a conversation with a model, of the agent or of a subagent.
type Thread struct {
	Messages   []conversation.Message
	Calls      []Call         // calls of the last reply, until all have results
	Todos      []Todo         // as last set by TodoWrite
	Shown      string         // the part of an unfinished reply that clients have seen
	Thought    string         // the part of an unfinished reasoning that clients have seen
	Context    int64          // tokens of the conversation, as the model counted for its last reply
	Turns      int            // replies since the last prompt
	Servers    string         // the newest list of MCP servers in the conversation; "" if there is none
	Memory                    // the facts that a compaction must keep
	Repeats    repeat.Tracker // repeated failures of calls
	Fallback   string         // reference to the model that answers until the run ends, instead of a busy model; "" is none
	NotApplied []rule.LeftOut // rules that were left out, as the model was told
	notices    []string       // messages to add after the results of Calls, or after the next reply
}

// Call is a tool call without a result.
type Call struct {
	conversation.ToolCall
	Sent     bool
	Judged   *CallJudged       // nil until the call is decided
	Approval *Approval         // the request to a person; nil if none was made
	Answer   *ApprovalAnswered // nil while the request is pending
	BootID   string            // boot of the machine to which the call was sent
	Upto     uint64            // number of the last journaled delta
	Shown    int               // bytes of the call's output in the journal
	Result   *conversation.ToolResult
	Said     *PullRequestSaid    // the comment that the call adds; nil before it is journaled
	Awaited  *PullRequestAwaited // what the call waits for at a pull request; nil before it is journaled
}

// apply folds an event of the conversation.
func (t *Thread) apply(body Body) {
	switch b := body.(type) {
	case *TextDelta:
		t.Shown += b.Text
	case *ThinkingDelta:
		t.Thought += b.Text
	case *ModelFallback:
		if b.Purpose == "" {
			t.Fallback = b.To
		}
	case *TurnReplied:
		t.replied(b)
	case *CallJudged:
		if c := t.call(b.CallID); c != nil {
			c.Judged = b
			if len(b.Args) > 0 {
				c.Args = b.Args
			}
		}
	case *CallSent:
		if c := t.call(b.CallID); c != nil {
			c.Sent, c.BootID, c.Unhooked = true, b.BootID, b.Unhooked
		}
	case *PullRequestSaid:
		if c := t.call(b.CallID); c != nil {
			c.Said = b
		}
	case *PullRequestAwaited:
		if c := t.call(b.CallID); c != nil {
			c.Awaited = b
		}
	case *CallReturned:
		if c := t.call(b.CallID); c != nil {
			c.Sent, c.BootID, c.Unhooked, c.Judged = false, "", false, nil
		}
	case *CallDelta:
		if c := t.call(b.CallID); c != nil {
			c.Upto = max(c.Upto, b.Upto)
			c.Shown += len(b.Stdout) + len(b.Stderr)
		}
	case *CallDone:
		t.done(b)
	case *Compacted:
		t.compacted(b)
	case *RulesGiven:
		t.addRules(b)
	case *Notice:
		switch b.Code {
		case CodeRepeats:
			t.Repeats.SetWarned()
		case CodeHook:
			t.learn(Rule{Source: HookRule, Text: b.Text})
		case CodeMCP:
			t.Servers = b.Text
		}
	}
}

// Next returns the next step of the conversation: [NextReply], [NextCalls] or
// [NextFinish].
func (t *Thread) Next() Next {
	switch {
	case len(t.Calls) > 0:
		return NextCalls
	case t.Turns > 0 && len(t.Messages) > 0 && t.Messages[len(t.Messages)-1].Role == conversation.Assistant:
		return NextFinish
	}
	return NextReply
}

// LastWords returns the text of the model's last message.
func (t *Thread) LastWords() string {
	for _, m := range slices.Backward(t.Messages) {
		if m.Role == conversation.Assistant {
			return m.PlainText()
		}
	}
	return ""
}

// say adds blocks to the conversation, merging consecutive messages of one
// role. It does not modify slices that copies of the thread share.
func (t *Thread) say(role conversation.Role, blocks ...conversation.Block) {
	if len(blocks) == 0 {
		return
	}
	if n := len(t.Messages); n > 0 && t.Messages[n-1].Role == role {
		last := t.Messages[n-1]
		last.Blocks = slices.Concat(last.Blocks, blocks)
		t.Messages = append(slices.Clip(t.Messages[:n-1]), last)
		return
	}
	t.Messages = append(t.Messages, conversation.Message{Role: role, Blocks: blocks})
}

// Notices returns the messages that wait for the results of the calls. The
// caller must not change them.
func (t *Thread) Notices() []string { return t.notices }

func (t *Thread) notice(text string) {
	if len(t.Calls) > 0 { // results must follow their calls directly
		t.notices = append(slices.Clip(t.notices), text)
		return
	}
	t.say(conversation.User, conversation.Block{Text: text})
}

// queueText adds a message. If a model request may be in progress, the message is placed
// after the reply to it.
func (t *Thread) queueText(text string) {
	if n := len(t.Messages); n > 0 && t.Messages[n-1].Role == conversation.User {
		t.notices = append(slices.Clip(t.notices), text)
		return
	}
	t.notice(text)
}

func (t *Thread) replied(b *TurnReplied) {
	t.Turns++
	t.Shown, t.Thought = "", ""
	t.Context = b.Usage.Context()
	t.say(conversation.Assistant, b.Message.Blocks...)
	for _, c := range b.Message.Calls() {
		t.Calls = append(t.Calls, Call{ToolCall: c})
	}
	if len(t.Calls) == 0 {
		t.answer()
	}
}

func (t *Thread) call(id string) *Call {
	for i := range t.Calls {
		if t.Calls[i].ID == id {
			return &t.Calls[i]
		}
	}
	return nil
}

func (t *Thread) done(b *CallDone) {
	c := t.call(b.CallID)
	if c == nil || c.Result != nil {
		return
	}
	if c.Name == "TodoWrite" {
		if todos, ok := todosOf(b.Output); ok {
			t.Todos = todos
		}
	}
	if !b.Error {
		t.note(*c, b.Text)
	}
	t.Repeats.Record(attempt(*c, b))
	c.Result = &conversation.ToolResult{CallID: b.CallID, Text: b.Text, Error: b.Error, Images: b.Images}
	for i := range t.Calls {
		if t.Calls[i].Result == nil {
			return
		}
	}
	t.answer()
}

// answer adds the results of all calls, in the order of the calls, and then the
// queued messages.
func (t *Thread) answer() {
	var blocks []conversation.Block
	for _, c := range t.Calls {
		blocks = append(blocks, conversation.Block{Result: c.Result})
	}
	for _, text := range t.notices {
		blocks = append(blocks, conversation.Block{Text: text})
	}
	t.Calls, t.notices = nil, nil
	t.say(conversation.User, blocks...)
}

func (t *Thread) compacted(b *Compacted) {
	at := max(len(t.Messages)-b.Keep, 0)
	old, keep := t.Messages[:at], t.Messages[at:]
	first := conversation.Text(conversation.User, b.Summary)
	if b.Memory != "" {
		first.Blocks = append(first.Blocks, conversation.Block{Text: b.Memory})
	}
	images := PromptImages(old)
	for _, n := range b.Images {
		if n >= 0 && n < len(images) {
			first.Blocks = append(first.Blocks, conversation.Block{Image: images[n]})
		}
	}
	t.Messages = slices.Concat([]conversation.Message{first}, keep)
	t.Context = 0
	t.Repeats = repeat.Tracker{} // repeating a call may be useful now
	if !slices.ContainsFunc(keep, func(m conversation.Message) bool { return m.Role == conversation.User && m.Has(t.Servers) }) {
		t.Servers = ""
	}
}

// ended closes unfinished calls and messages when the run ends.
func (t *Thread) ended(why string) {
	t.Shown, t.Thought = "", ""
	for i := range t.Calls { // providers reject a conversation with a call that has no result
		if c := &t.Calls[i]; c.Result == nil {
			text := "never started: " + why + " before the call ran, so it had no effect"
			if c.Sent {
				text = "not finished: " + why + " while the call ran; it may have taken effect, in part or completely"
			}
			c.Result = &conversation.ToolResult{CallID: c.ID, Text: text, Error: true}
		}
	}
	t.answer()
}
