package rulebook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/rule"
	"aloft/internal/tool"
)

// withoutFiles returns the rules without the texts of skills, because the model
// reads skill files in the machine.
func withoutFiles(rules []rule.Rule) []rule.Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		if rules[i].Kind == rule.Skill {
			rules[i].Text = ""
		}
	}
	return rules
}

// Writer runs the call that writes a file in the machine. It is the part of
// [remote.Machine] that skills need.
type Writer interface {
	Call(ctx context.Context, c conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, time.Duration, error)
	Ack(ctx context.Context, callID string) error
}

// PlaceSkills writes the skills of the team and of the agent's owner to files in
// the machine. A file that cannot be written does not stop the run.
func (b *Book) PlaceSkills(ctx context.Context, a agent.Agent, m Writer) error {
	if b.Own == nil {
		return nil
	}
	rules, err := b.Own(ctx, a)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if r.Kind != rule.Skill {
			continue
		}
		args, err := json.Marshal(map[string]string{"path": r.Path(agent.Workspace), "contents": r.Text})
		if err != nil {
			return err
		}
		sum := sha256.Sum256(args)
		c := conversation.ToolCall{ID: "skill_" + hex.EncodeToString(sum[:12]), Name: "Write", Args: args}
		result, _, err := m.Call(ctx, c, func(remote.Delta) {})
		if err == nil {
			err = m.Ack(ctx, c.ID)
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil || result.Error {
			b.Log.Warn("a skill could not be written", "skill", r.Name(), "said", result.Text, "error", err)
		}
	}
	return nil
}
