package agent

import (
	"slices"

	"aloft/internal/conversation"
)

// A Thread is one conversation with a model: the agent's own, or that of a
// subagent.
type Thread struct {
	Messages []conversation.Message
	Calls    []Call   // of the last reply, until every one has its result
	Todos    []Todo   // as TodoWrite left them
	Shown    string   // of a reply that is not whole: what watchers have seen of it
	Thought  string   // likewise of its reasoning
	Context  int64    // tokens that the model counted in its last reply's conversation
	Turns    int      // replies since it was last asked something
	Memory            // what a summary must not lose
	notices  []string // to be told after the results of Calls, or after the next reply
}

// Call is a tool call on its way.
type Call struct {
	conversation.ToolCall
	Sent     bool
	Judged   *CallJudged       // nil until it is decided how it is treated
	Approval *Approval         // the question that was put to a person; nil if none was
	Answer   *ApprovalAnswered // nil while it waits
	BootID   string            // of the machine that it was sent to
	Upto     uint64            // the last of its deltas that is in the journal
	Shown    int               // bytes of output in the journal
	Result   *conversation.ToolResult
}

// apply folds what was said in the conversation.
func (t *Thread) apply(body Body) {
	switch b := body.(type) {
	case *TextDelta:
		t.Shown += b.Text
	case *ThinkingDelta:
		t.Thought += b.Text
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
			c.Sent, c.BootID = true, b.BootID
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
	case *Notice:
		if b.Code == CodeHook {
			t.learn(Rule{Source: HookRule, Text: b.Text})
		}
	}
}

// Next returns what there is to do in the conversation: [NextReply],
// [NextCalls], or [NextFinish].
func (t *Thread) Next() Next {
	switch {
	case len(t.Calls) > 0:
		return NextCalls
	case t.Turns > 0 && len(t.Messages) > 0 && t.Messages[len(t.Messages)-1].Role == conversation.Assistant:
		return NextFinish
	}
	return NextReply
}

// LastWords are the last text that the model said.
func (t *Thread) LastWords() string {
	for _, m := range slices.Backward(t.Messages) {
		if m.Role == conversation.Assistant {
			return m.PlainText()
		}
	}
	return ""
}

// say adds blocks to the conversation, joining what one speaker says in a row.
// Those who have a copy of the thread see nothing of it.
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

func (t *Thread) notice(text string) {
	if len(t.Calls) > 0 { // results come first, right after their calls
		t.notices = append(slices.Clip(t.notices), text)
		return
	}
	t.say(conversation.User, conversation.Block{Text: text})
}

// later tells of what has come while the model may have been asked already: after
// the reply that is due, if one is, so that it is not taken for one that knew.
func (t *Thread) later(text string) {
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
	if todos, ok := todosOf(b.Output); c.Name == "TodoWrite" && ok {
		t.Todos = todos
	}
	if !b.Error {
		t.note(*c, b.Text)
	}
	c.Result = &conversation.ToolResult{CallID: b.CallID, Text: b.Text, Error: b.Error, Images: b.Images}
	for i := range t.Calls {
		if t.Calls[i].Result == nil {
			return
		}
	}
	t.answer()
}

// answer says the results of all calls, in the calls' order, and then what
// waited for them.
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
}

// ended closes what the end of the run has left open.
func (t *Thread) ended(why string) {
	t.Shown, t.Thought = "", ""
	for i := range t.Calls { // a conversation with a call and no result is refused by every model
		if c := &t.Calls[i]; c.Result == nil {
			text := "never started: " + why + " before the call, which has had no effect"
			if c.Sent {
				text = "not finished: " + why + " while the call ran; it may have had its effect, in part or whole"
			}
			c.Result = &conversation.ToolResult{CallID: c.ID, Text: text, Error: true}
		}
	}
	t.answer()
}
