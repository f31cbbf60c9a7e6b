package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/rule"
)

// withoutFiles returns the rules with the texts of skills left out: the model
// reads their files in the machine.
func withoutFiles(rules []rule.Rule) []rule.Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		if rules[i].Kind == rule.Skill {
			rules[i].Text = ""
		}
	}
	return rules
}

// placeSkills writes the skills of the team and of the agent's owner to files in
// the machine. A file that cannot be written does not stop the run.
func (l *Loop) placeSkills(ctx context.Context, m remote.Machine) error {
	if l.Rules == nil {
		return nil
	}
	rules, err := l.Rules(ctx, l.rec.Snapshot().Agent)
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
		said, _, err := m.Call(ctx, c, func(remote.Delta) {})
		if err == nil {
			err = m.Ack(ctx, c.ID)
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil || said.Error {
			l.Logger.Warn("a skill could not be written", "skill", r.Name(), "said", said.Text, "error", err)
		}
	}
	return nil
}
