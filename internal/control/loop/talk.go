package loop

import (
	"context"
	"fmt"
	"slices"

	"aloft/internal/agent"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// A talk works one conversation with a model: it asks, and works the calls of
// the reply. The run has the agent's own, and one for each subagent that works.
// Like the loop it holds nothing that the journal does not.
type talk struct {
	*Loop
	hands Hands    // the machine's, as this conversation reached it last; nil before, and after it was lost
	lacks []string // the tools that could not work in the machine that was reached last
	model model.Model
	info  model.Info
	task  string // the call at which the subagent works; "" in the agent's own
	cache model.Cache
	acks  acks // that the machine has not confirmed yet
}

// state is how the journal stands, with this conversation's thread. It stays as
// it is.
func (t *talk) state() *agent.State { return t.rec.snapshotOf(t.task) }

// record journals what happens in this conversation.
func (t *talk) record(ctx context.Context, bodies ...agent.Body) error {
	if len(bodies) == 0 {
		return nil
	}
	if t.task != "" {
		bodies = slices.Clone(bodies)
		for i, b := range bodies {
			switch b.(type) {
			case *agent.ApprovalAsked, *agent.ApprovalAnswered, *agent.ScriptKept: // they are the agent's
			default:
				bodies[i] = &agent.Within{CallID: t.task, Body: b}
			}
		}
	}
	return t.rec.record(ctx, bodies...)
}

// system is what the model is told before the conversation.
func (t *talk) system(s *agent.State) string {
	if t.task == "" {
		return systemPrompt(s)
	}
	return subagentPrompt(s, s.Subagent(t.task))
}

// prefix begins the ids of the next reply's calls, as no others ever do.
func (t *talk) prefix(s *agent.State) string {
	if t.task == "" {
		return fmt.Sprintf("call_%d", s.Number())
	}
	return fmt.Sprintf("%s_%d", t.task, s.Turns)
}

// placed is a call as the machine gets it. A subagent in the background has a shell
// of its own there: in one shell, commands wait for one another.
func (t *talk) placed(c agent.Call) conversation.ToolCall {
	if sub := t.state().Subagent(t.task); t.task != "" && sub != nil && sub.Background {
		c.Shell = sub.ID
	}
	return c.ToolCall
}

// step does what is next in the conversation. It reports whether that was
// nothing, since the model has said its last.
func (t *talk) step(ctx context.Context) (said bool, err error) {
	switch t.state().Next() {
	case agent.NextReply:
		return false, t.reply(ctx)
	case agent.NextCalls:
		return false, t.calls(ctx)
	}
	return true, t.acknowledged()
}
