package loop

import (
	"context"
	"slices"

	"aloft/internal/agent"
	"aloft/internal/control/loop/draft"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// foresee decides about the first calls of a reply before the reply is
// journaled. So a single append can hold the reply, the decisions, and the fact
// that the calls were sent. foresee does not decide about a call for which a
// hook, the classifier or a person must be asked, while the agent is paused, or
// after an error: then [thread.calls] decides once the reply is journaled. The
// decisions hold for the state at head, see [journal.Recorder.RecordDecided].
func (t *thread) foresee(ctx context.Context, reply conversation.Message) (decided []agent.Body, head int64) {
	calls := reply.Calls()
	s := t.state()
	if len(calls) == 0 || t.hasHooks() || !t.hasCurrentMachine() || s.Agent.Paused || s.Cancel != "" {
		return nil, 0
	}
	first := 1
	if !slices.ContainsFunc(calls, func(c conversation.ToolCall) bool { return !t.onlyReads(agent.Call{ToolCall: c}) }) {
		first = min(len(calls), maxParallel)
	}
	for _, c := range calls[:first] {
		decided = append(decided, t.foreseen(ctx, agent.Call{ToolCall: c})...)
	}
	if ctx.Err() != nil { // stop sending calls
		return nil, 0
	}
	return decided, s.Agent.Head
}

// foreseen returns the events to journal before a call runs: the decision about
// the call, and the event that the call is sent.
func (t *thread) foreseen(ctx context.Context, c agent.Call) []agent.Body {
	spec, ok := tool.Lookup(c.Name)
	switch {
	case !ok || t.withheld(spec) != "" || draft.NotObject(c.Args):
		return nil
	case spec.Runner == tool.Server && !spec.Reviewed:
		return t.sentEvents(c, "")
	case spec.Runner != tool.Machine:
		return nil
	}
	args := string(c.Args)
	if ask, err := t.judge(ctx, &c); err != nil || ask != nil {
		return nil
	}
	if c.Judged.Args = nil; string(c.Args) != args { // a hook has changed the arguments meanwhile
		c.Judged.Args = c.Args
	}
	if c.Judged.Treatment == agent.CallRefused {
		return t.unjournaled(c)
	}
	if _, err := t.wayOf(ctx, c); err != nil {
		return nil
	}
	return t.sentEvents(c, t.machine.BootID())
}
