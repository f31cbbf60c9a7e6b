package server

import (
	"context"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/rule"
)

// agentRules returns a function that reads the rules and skills with which the team and an
// agent's owner tell agents how to work.
func agentRules(files store.Rules) func(context.Context, agent.Agent) ([]rule.Rule, error) {
	return func(ctx context.Context, a agent.Agent) (rules []rule.Rule, err error) {
		for _, of := range []struct {
			from  rule.From
			owner string
		}{{rule.Team, store.TeamRules}, {rule.User, store.RulesOf(a.UserID)}} {
			text, err := files.Rule(ctx, of.owner, rule.File)
			if err != nil {
				return nil, err
			}
			if text = strings.TrimSpace(text); text != "" {
				rules = append(rules, rule.Rule{Source: rule.File, From: of.from, When: rule.Always, Text: text})
			}
			if text, err = files.Rule(ctx, of.owner, rule.SkillsFile); err != nil {
				return nil, err
			}
			if text != "" {
				skills, _, _ := rule.ParseSkills(of.from, text) // the API has checked it
				rules = append(rules, skills...)
			}
		}
		return rules, nil
	}
}
