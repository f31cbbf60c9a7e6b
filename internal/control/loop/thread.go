package loop

import (
	"context"
	"fmt"
	"slices"

	"aloft/internal/agent"
	"aloft/internal/control/loop/prompt"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// A thread is one conversation with a model: it asks the model and runs the calls
// of the replies. A run has one for the agent and one for each working
// subagent. Like the loop, it keeps no state that is not in the journal.
type thread struct {
	*Loop
	machine remote.Machine // the machine to which this conversation is attached; nil before the first, and after a loss
	lacks   []string       // tools that do not work in that machine
	answerer
	task  string // id of the call that started the subagent; "" for the agent's own
	cache model.Cache
	acks  acks // acknowledgements that the machine has not confirmed yet
}

// state returns a copy of the folded journal with this conversation's thread.
// The copy does not change.
func (t *thread) state() *agent.State { return t.rec.SnapshotOf(t.task) }

// record journals events of this conversation.
func (t *thread) record(ctx context.Context, bodies ...agent.Body) error {
	if len(bodies) == 0 {
		return nil
	}
	return t.rec.Record(ctx, t.inThread(bodies)...)
}

// inThread returns events in the form in which the journal stores them for this
// conversation: events of a subagent are wrapped in [agent.Within].
func (t *thread) inThread(bodies []agent.Body) []agent.Body {
	if t.task == "" {
		return bodies
	}
	bodies = slices.Clone(bodies)
	for i, b := range bodies {
		switch b.(type) {
		case *agent.ApprovalAsked, *agent.ApprovalAnswered, *agent.ScriptKept: // these events always belong to the agent
		default:
			bodies[i] = &agent.Within{CallID: t.task, Body: b}
		}
	}
	return bodies
}

// system returns the conversation's system prompt.
func (t *thread) system(s *agent.State) string {
	if t.task == "" {
		return prompt.System(s)
	}
	return prompt.Subagent(s, s.Subagent(t.task))
}

// prefix returns the prefix for the call ids of the next reply, which is unique
// within the journal.
func (t *thread) prefix(s *agent.State) string {
	if t.task == "" {
		return fmt.Sprintf("call_%d", s.Number())
	}
	return fmt.Sprintf("%s_%d", t.task, s.Turns)
}

// routedCall returns a call in the form that the machine gets. A background
// subagent has its own shell in the machine, because commands in one shell wait
// for each other. Each check has its own shell too, so that variables and other
// state of the agent's shell do not affect the result.
func (t *thread) routedCall(c agent.Call) conversation.ToolCall {
	if t.task == agent.ChecksThread {
		c.Shell = c.ID
		return c.ToolCall
	}
	if sub := t.state().Subagent(t.task); t.task != "" && sub != nil && sub.Background {
		c.Shell = sub.ID
	}
	return c.ToolCall
}

// step does the next step of the conversation. It returns true if the
// conversation has ended, because the model's last reply has no calls.
func (t *thread) step(ctx context.Context) (said bool, err error) {
	switch t.state().Next() {
	case agent.NextReply:
		return false, t.reply(ctx)
	case agent.NextCalls:
		return false, t.calls(ctx)
	}
	return true, t.acknowledged()
}
