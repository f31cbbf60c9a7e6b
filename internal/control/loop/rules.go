package loop

import (
	"context"

	"aloft/internal/control/loop/compact"
	"aloft/internal/control/loop/rulebook"
	"aloft/internal/conversation"
	"aloft/internal/subagent"
	"aloft/internal/tool"
)

// findRules reads the rules at the beginning of a run.
func (l *Loop) findRules(ctx context.Context) error {
	found, err := l.rules.Find(ctx, l.rec.Snapshot(), l.own.machine)
	if err != nil || found == nil {
		return err
	}
	return l.rec.Record(ctx, found)
}

// reloadSkills runs a ReloadAgentSkills call. What it finds is given with the next
// request.
func (t *thread) reloadSkills(ctx context.Context, _ conversation.ToolCall) (tool.Result, error) {
	if err := t.reach(ctx); err != nil {
		return tool.Result{}, err
	}
	result, found, err := t.rules.Reload(ctx, t.state(), t.machine)
	if err == nil && found != nil {
		err = t.rec.Record(ctx, found)
	}
	return result, err
}

// giveRules sends the model the rules that apply to its work and that it has not
// received yet. The loop calls it at the start, and when the model's tools use a file
// to which further rules apply.
func (t *thread) giveRules(ctx context.Context) error {
	s := t.state()
	prompt := ""
	if len(s.Asked) > 0 {
		prompt = s.Asked[len(s.Asked)-1]
	}
	if t.task != "" {
		sub := s.Subagent(t.task)
		if prompt = sub.Prompt; sub.Type == subagent.ComputerUse {
			return nil // the desktop subagent sees no files
		}
	}
	found, err := t.rules.Nested(ctx, s, t.machine)
	if err != nil {
		return err
	}
	if found != nil {
		if err := t.rec.Record(ctx, found); err != nil {
			return err
		}
	}
	if given := rulebook.Next(t.state(), prompt, t.info.ContextWindow*compact.CharsPerToken); given != nil {
		return t.record(ctx, given)
	}
	return nil
}
