package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"aloft/internal/agent"
	loophook "aloft/internal/control/loop/hook"
	"aloft/internal/control/loop/proof"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/loop/task"
	"aloft/internal/control/model"
	"aloft/internal/fault"
	"aloft/internal/hook"
	"aloft/internal/subagent"
	"aloft/internal/tool"
)

// maxTasks is how many subagents of one agent can work at the same time.
const maxTasks = 4

// chooseSubagent returns the subagent for a call: the existing one if the call names an
// ID, and otherwise a new one. The error is for the model.
func (t *thread) chooseSubagent(in task.Args) (agent.TaskBegan, error) {
	s, defined := t.state(), t.defined()
	b := agent.TaskBegan{Description: in.Description, Prompt: in.Prompt}
	old := s.Subagent(in.Resume)
	if in.Resume != "" && (old == nil || old.Busy) {
		return b, fmt.Errorf("there is no subagent %q to resume: start a new one without resume, or wait if it still works in the background", in.Resume)
	}
	d, err := subagent.Find(in.Type, defined)
	if err == nil && in.Resume == "" && d.Stateful() {
		for i := range s.Subagents {
			if sub := &s.Subagents[i]; !sub.Busy && sub.Type == d.Name {
				old = sub
			}
		}
	}
	switch {
	case old != nil:
		b.ID, b.Type, b.ReadOnly, b.Words, b.Model = old.ID, old.Type, old.ReadOnly || in.ReadOnly, old.Words, old.Model
		d, _ = subagent.Find(old.Type, defined) // a file may have been deleted
	case err != nil:
		return b, err
	default:
		b.Type, b.ReadOnly, b.Words, b.Model = d.Name, d.ReadOnly || in.ReadOnly, d.Words, d.Model
	}
	if b.Background = in.Background || d.Background; b.Background && len(s.Background()) >= maxTasks {
		return b, fmt.Errorf("%d subagents already work in the background, which is the maximum: wait until one has ended", maxTasks)
	}
	return b, nil
}

// onlyReads reports whether a call changes nothing.
func (t *thread) onlyReads(c agent.Call) bool {
	if c.Name == agent.TaskTool {
		in, err := task.Read(c.Args)
		if err != nil {
			return true // the call will be refused
		}
		b, err := t.chooseSubagent(in)
		return err != nil || b.ReadOnly
	}
	if c.Name == task.ManagePull {
		var in struct{ Action string }
		return json.Unmarshal(c.Args, &in) == nil && agent.PullReads(in.Action)
	}
	spec, ok := tool.Lookup(c.Name)
	return ok && spec.ReadOnly
}

// delegate runs a Task call: a subagent works, and its answer becomes the
// call's result. After a crash it continues where the subagent was. It does not
// wait for a background subagent.
func (t *thread) delegate(ctx context.Context, c agent.Call) (outcome, error) {
	sub := t.state().Subagent(c.ID)
	if sub == nil || !sub.Busy {
		refused, err := t.beginTask(ctx, c)
		if err != nil {
			return outcome{}, err
		}
		if refused != nil {
			return outcome{result: *refused}, nil
		}
		sub = t.state().Subagent(c.ID)
	}
	if sub.Background {
		t.startBackground()
		return outcome{result: task.Begun(sub)}, nil
	}
	work := t.subagentThread(sub)
	ended, result, err := work.taskResult(ctx, work.converse(ctx))
	if err != nil {
		return outcome{}, err
	}
	return outcome{result: result, took: time.Since(sub.Began), events: []agent.Body{ended}}, nil
}

// subagentThread returns the thread of a subagent.
func (t *thread) subagentThread(sub *agent.Subagent) *thread {
	work := &thread{Loop: t.Loop, machine: t.machine, lacks: t.lacks, task: sub.CallID}
	var err error
	if work.model, work.info, err = t.findModel(sub.Model); err != nil {
		work.model, work.info = t.model, t.info // the model is no longer configured
	}
	return work
}

// taskResult converts the error of a subagent's conversation to the subagent's
// status and the result for the agent. It returns errors that do not concern
// the subagent alone.
func (t *thread) taskResult(ctx context.Context, err error) (*agent.TaskEnded, tool.Result, error) {
	if err != nil && !itsOwn(ctx, err) {
		return nil, tool.Result{}, err
	}
	sub := t.state().Subagent(t.task)
	ended := &agent.TaskEnded{
		CallID: sub.CallID, ID: sub.ID, Status: "completed", DurationMS: time.Since(sub.Began).Milliseconds(), Turns: sub.Turns, ToolCalls: sub.ToolCalls, Usage: sub.Usage,
	}
	if err == nil {
		return ended, task.Answer(sub, ended), nil
	}
	ended.Status = "error"
	t.tell(ctx, hook.SubagentStop, task.StopFields(sub, ended.Status))
	return ended, tool.Failed("the subagent %s failed: %s", sub.ID, failure(err).Message), nil
}

// itsOwn reports whether an error ends only the subagent. This is the case if
// its model fails or makes no progress.
func itsOwn(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	_, ok := errors.AsType[*model.Error](err)
	return ok || fault.Of(err).Code == modelRefused || fault.Of(err).Code == proof.NoProgress
}

// beginTask journals that a subagent starts to work for the call. If the
// subagent may not start, the returned result says why.
func (t *thread) beginTask(ctx context.Context, c agent.Call) (refused *tool.Result, err error) {
	no := func(format string, args ...any) (*tool.Result, error) {
		r := tool.Failed(format, args...)
		return &r, nil
	}
	in, err := task.Read(c.Args)
	if err != nil {
		return no("%v", err)
	}
	b, err := t.chooseSubagent(in)
	if err != nil {
		return no("%v", err)
	}
	if b.Type == subagent.ComputerUse && b.ReadOnly {
		return no("%s acts on the desktop and cannot be read-only: call it without readonly", b.Type)
	}
	b.CallID = c.ID
	if b.ID == "" {
		b.ID = c.ID
	}
	id := b.Model
	if in.Model != "" {
		id = in.Model
	}
	if _, info, err := t.findModel(id); err == nil {
		b.Model = info.Name()
	} else if in.Model != "" {
		return no("there is no model %q: leave model empty, or use fast", in.Model)
	} else {
		b.Model = t.info.Name() // a file in the repository cannot know which models are configured
	}
	if _, info, err := t.findModel(b.Model); err == nil && t.payable(info) != nil {
		return no("the price of the model %q is not known, and the user has set a cost limit: leave model empty", info.ID)
	}
	if looks := (subagent.Definition{Name: b.Type}).Looks(); looks && b.Words == "" {
		if _, info, err := t.findModel(b.Model); err != nil || !info.Images {
			return no("%s is not available: needs a model that accepts images, which %q does not; choose another model", b.Type, b.Model)
		}
	}
	outcome, err := t.runHooks(ctx, hook.Call{Events: t.presentOnes([]hook.Input{{Event: hook.SubagentStart, Subject: b.Type, Fields: map[string]any{
		"subagent_id": b.ID, "subagent_type": b.Type, "task": in.Prompt, "parent_conversation_id": t.rec.AgentID(),
	}}})})
	if err != nil {
		return nil, err
	}
	if outcome.Permission == hook.Deny {
		return no("%s", loophook.Refusal(outcome))
	}
	return nil, t.record(ctx, append(t.sentEvents(c, ""), &b)...)
}

// findModel returns the model that a subagent's definition asks for. It returns
// the agent's model for "", and for "fast" if no fast model is configured.
func (t *thread) findModel(id string) (model.Model, model.Info, error) {
	if id == subagent.Fast {
		id = t.Models.Fast
	}
	if id == "" || id == subagent.Inherit || id == t.info.Name() {
		return t.model, t.info, nil
	}
	if t.Models.Named == nil {
		return nil, model.Info{}, fault.NotFound("no model %q", id)
	}
	return t.Models.Named(id)
}

// converse works a subagent's conversation to its end.
func (t *thread) converse(ctx context.Context) error {
	defer func() { _ = t.acknowledged() }() // step has already returned the errors that matter
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := t.holdWhilePaused(ctx); err != nil {
			return err
		}
		if t.state().Cancel != "" {
			return ErrCancel
		}
		outcome, err := t.step(ctx)
		if err != nil {
			return err
		}
		if !outcome {
			continue
		}
		if on, err := t.stopped(ctx); err != nil || !on {
			return err
		}
	}
}

// stopped runs the subagentStop hooks after a subagent's last reply. It returns
// true if a hook makes the subagent continue.
func (t *thread) stopped(ctx context.Context) (on bool, err error) {
	sub := t.state().Subagent(t.task)
	outcome, err := t.runHooks(ctx, hook.Call{LoopCount: sub.Followups, Events: t.presentOnes([]hook.Input{
		{Event: hook.SubagentStop, Subject: sub.Type, Fields: task.StopFields(sub, "completed")},
	})})
	if err != nil || outcome.FollowupMessage == "" {
		return false, err
	}
	return true, t.record(ctx, &agent.Notice{Text: outcome.FollowupMessage, Code: agent.CodeFollowup})
}

// findSubagents reads from the machine which subagents the repositories define.
func (l *Loop) findSubagents(ctx context.Context) error {
	s := l.rec.Snapshot()
	if s.Run.Turns > 0 || len(s.Agent.Repos) == 0 {
		return nil // the model's list of subagents does not change during a conversation
	}
	files, err := l.own.machine.Subagents(ctx)
	if err != nil {
		if !errors.Is(err, remote.ErrLost) && ctx.Err() == nil {
			l.Logger.Warn("the repository's subagents cannot be read", "error", err)
		}
		return nil
	}
	found, complaints := subagent.Collect(files)
	if slices.Equal(found, s.Defined) {
		return nil
	}
	return l.rec.Record(ctx, &agent.SubagentsFound{Definitions: found, Complaints: complaints})
}
