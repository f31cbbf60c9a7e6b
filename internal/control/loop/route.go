package loop

import (
	"context"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/draft"
	"aloft/internal/control/loop/memo"
	"aloft/internal/control/loop/rulebook"
	"aloft/internal/control/loop/task"
	controltool "aloft/internal/control/tool"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// route says how and where a call runs.
type route struct {
	why      string // why the call cannot run, for the model; "" if it can
	reviewed bool   // whether hooks and the run mode decide about the call
	run      runner
}

// A runner runs a call, or continues one that was already sent. It journals that
// the call was sent before the call has an effect. It does not journal the
// result.
type runner func(ctx context.Context, c agent.Call) (outcome, error)

// outcome is the outcome of a call.
type outcome struct {
	result      tool.Result
	took        time.Duration
	events      []agent.Body // journaled together with the result
	keepsResult bool         // whether the machine keeps the result until it is acknowledged
}

// failed returns the outcome of a call that failed before it had an effect.
func failed(began time.Time, format string, args ...any) outcome {
	return outcome{result: tool.Failed(format, args...), took: time.Since(began)}
}

// route checks a call and chooses its runner.
func (t *thread) route(ctx context.Context, c agent.Call) (route, error) {
	spec, ok := tool.Lookup(c.Name)
	switch {
	case !ok:
		return route{why: "there is no tool \"" + c.Name + "\"; the tools are " + toolNames()}, nil
	case t.withheld(spec) != "":
		return route{why: t.withheld(spec)}, nil
	case draft.NotObject(c.Args):
		return route{why: "the arguments were not a JSON object; send the call again"}, nil
	case spec.Runner == tool.MCP:
		return t.mcpRoute(ctx, c)
	case spec.Home == tool.Guest && t.isLost(c):
		return route{why: tool.Lost}, nil
	}
	runners := map[tool.Runner]runner{
		tool.Machine: t.send, tool.Prepared: t.prepare, tool.Server: t.serve, tool.Subagent: t.delegate, tool.Person: t.consult,
	}
	return route{reviewed: spec.Reviewed, run: runners[spec.Runner]}, nil
}

// isLost reports whether a call was sent to an earlier boot of the machine,
// which has ended.
func (t *thread) isLost(c agent.Call) bool { return c.Sent && c.BootID != t.machine.BootID() }

// prepare adds the server's data to a call, and has the machine run it.
func (t *thread) prepare(ctx context.Context, c agent.Call) (outcome, error) {
	if c.Sent {
		return t.send(ctx, c)
	}
	payloadOf := map[string]func(context.Context, agent.Call) ([]byte, *outcome, error){applyDiff: t.patchesFor, paintImage: t.paint}[c.Name]
	data, refused, err := payloadOf(ctx, c)
	if err != nil {
		return outcome{}, err
	}
	if refused != nil {
		return *refused, nil
	}
	c.Payload = data
	return t.send(ctx, c)
}

// serve runs a tool of the control plane. Such tools are idempotent, so they can
// run again after a crash.
func (t *thread) serve(ctx context.Context, c agent.Call) (outcome, error) {
	if !c.Sent {
		if err := t.record(ctx, t.sentEvents(c, "")...); err != nil {
			return outcome{}, err
		}
	}
	began := time.Now()
	act := map[string]func(context.Context, conversation.ToolCall) (tool.Result, error){
		rulebook.Tool: t.reloadSkills, task.ManagePull: t.manage, searchWeb: t.searchWeb, memo.Tool: t.remember, controltool.Attribution: t.attribute,
	}[c.Name]
	if act != nil {
		result, err := act(ctx, c.ToolCall)
		return outcome{result: result, took: time.Since(began)}, err
	}
	result, kept := controltool.Run(ctx, c.ToolCall, t.state(), t.Tools.Scripts)
	out := outcome{result: result, took: time.Since(began)}
	if kept != nil {
		out.events = []agent.Body{kept}
	}
	return out, context.Cause(ctx)
}

// manage runs a PrManagement call.
func (t *thread) manage(ctx context.Context, c conversation.ToolCall) (tool.Result, error) {
	return t.requests.Manage(ctx, c, t.machine)
}

// attribute runs an AiAttribution call.
func (t *thread) attribute(ctx context.Context, c conversation.ToolCall) (tool.Result, error) {
	return controltool.Attribute(ctx, c, t.rec.Snapshot(), t.Tools.Attribution)
}

// remember runs an UpdateMemory call.
func (t *thread) remember(ctx context.Context, c conversation.ToolCall) (tool.Result, error) {
	return t.memo.Update(ctx, c, t.rec.Snapshot())
}

// consult runs a call in which the agent asks a person something. The answer is
// the call's result.
func (t *thread) consult(ctx context.Context, c agent.Call) (outcome, error) {
	if c.Approval == nil {
		q, err := controltool.Question(c.ToolCall)
		if err != nil {
			return failed(time.Now(), "%v", err), nil
		}
		if err := t.askPerson(ctx, &c, q, &agent.CallSent{CallID: c.ID}); err != nil {
			return outcome{}, err
		}
	}
	if err := t.await(ctx, &c); err != nil {
		return outcome{}, err
	}
	return outcome{result: controltool.Answer(*c.Approval, *c.Answer), took: time.Since(c.Approval.AskedAt)}, nil
}
