package rulebook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/rule"
	"aloft/internal/tool"
)

// Tool is the tool that reads skills again.
const Tool = "ReloadAgentSkills"

// Reloader is the part of [remote.Machine] that [Book.Reload] needs.
type Reloader interface {
	Machine
	Writer
}

// Reload reads skills and commands again: those of the team and of the agent's owner, and
// those of the repositories. found has those that are new or have changed, or is nil. All
// other rules stay as they were when the run began, and so do deleted skills.
func (b *Book) Reload(ctx context.Context, s *agent.State, m Reloader) (result tool.Result, found *agent.RulesFound, err error) {
	var now rule.Set
	if b.Own != nil {
		own, err := b.Own(ctx, s.Agent)
		if err != nil {
			return result, nil, err
		}
		now.Rules = withoutFiles(own)
		if err := b.PlaceSkills(ctx, s.Agent, m); err != nil {
			return result, nil, err
		}
	}
	if read := folders(s); len(read) > 0 {
		theirs, err := m.Rules(ctx, read[:min(len(read), maxAtOnce)])
		switch {
		case context.Cause(ctx) != nil:
			return result, nil, context.Cause(ctx)
		case errors.Is(err, remote.ErrLost):
			return result, nil, err
		case err != nil:
			return tool.Failed("the machine could not read the skills: %v", err), nil, nil
		}
		now.Rules, now.LeftOut = append(now.Rules, theirs.Rules...), theirs.LeftOut
	}
	now.Rules = slices.DeleteFunc(now.Rules, func(r rule.Rule) bool { return r.Kind == rule.Plain })
	result = listSkills(now)
	now.Rules = slices.DeleteFunc(now.Rules, func(r rule.Rule) bool {
		return slices.ContainsFunc(s.Found.Rules, func(o rule.Rule) bool { return sameRule(o, r) })
	})
	now.LeftOut = slices.DeleteFunc(now.LeftOut, func(l rule.LeftOut) bool { return slices.Contains(s.Found.LeftOut, l) })
	if len(now.Rules) == 0 && len(now.LeftOut) == 0 {
		return result, nil, nil
	}
	return result, &agent.RulesFound{Set: now, Nested: true}, nil
}

// listSkills returns the result that lists the skills of a set.
func listSkills(now rule.Set) tool.Result {
	type skill struct {
		Name        string `json:"name"`
		Path        string `json:"path"`
		Description string `json:"description"`
	}
	var b strings.Builder
	skills := []skill{}
	for _, r := range now.Rules {
		if r.Kind != rule.Skill {
			continue
		}
		skills = append(skills, skill{r.Name(), r.Path(agent.Workspace), r.Description})
		fmt.Fprintf(&b, "- %s (%s)\n", r.Name(), r.Path(agent.Workspace))
	}
	output, err := json.Marshal(map[string]any{"success": map[string]any{"skills": skills}})
	if err != nil {
		return tool.Failed("encode the result: %v", err)
	}
	return tool.Result{Text: fmt.Sprintf("Skills: %d\n", len(skills)) + b.String(), Output: output}
}
