package loop

import (
	"bytes"
	"context"
	"slices"

	"aloft/internal/agent"
	controltool "aloft/internal/control/tool"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// foresee decides about the calls of a reply that are worked first, so that one
// append holds the reply, what was decided, and that the calls were sent. Where a
// hook, the classifier or a person is to be asked about a call, or the agent is
// paused, it returns nothing for it: [talk.calls] decides when the reply is in the
// journal. It does so too about a call for which foresee meets an error.
func (t *talk) foresee(ctx context.Context, reply conversation.Message) (decided []agent.Body) {
	calls := reply.Calls()
	if len(calls) == 0 || t.hasHooks() || !t.inPlace() {
		return nil
	}
	if paused, _, err := t.rec.news(ctx); err != nil || paused || t.state().Cancel != "" {
		return nil
	}
	first := 1
	if !slices.ContainsFunc(calls, func(c conversation.ToolCall) bool { return !t.onlyReads(agent.Call{ToolCall: c}) }) {
		first = min(len(calls), maxParallel)
	}
	for _, c := range calls[:first] {
		decided = append(decided, t.foreseen(ctx, agent.Call{ToolCall: c})...)
	}
	if ctx.Err() != nil { // nothing is to be sent any more
		return nil
	}
	return decided
}

// foreseen returns the events to journal for one call before it is made: what was
// decided about it, and that it was sent.
func (t *talk) foreseen(ctx context.Context, c agent.Call) []agent.Body {
	spec, ok := tool.Lookup(c.Name)
	switch {
	case !ok || t.withheld(spec) != "" || notObject(c) || isMCP(c.Name) || controltool.Consults(c.Name):
		return nil
	case spec.Home == tool.Control && !controltool.Reviewed(c.Name):
		return t.sent(c, "")
	case spec.Home == tool.Control:
		return nil
	}
	args := string(c.Args)
	if ask, err := t.judge(ctx, &c); err != nil || ask != nil {
		return nil
	}
	if c.Judged.Args = nil; string(c.Args) != args { // a hook came between
		c.Judged.Args = c.Args
	}
	if c.Judged.Treatment == agent.CallRefused {
		return t.unjournaled(c)
	}
	if _, err := t.wayOf(ctx, c); err != nil {
		return nil
	}
	return t.sent(c, t.hands.BootID())
}

// notObject reports whether the model wrote arguments that are no JSON object.
func notObject(c agent.Call) bool { return bytes.HasPrefix(c.Args, []byte(`{"`+notJSON+`":`)) }
