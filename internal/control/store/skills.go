package store

import (
	"context"
	"encoding/json"
	"fmt"

	"aloft/internal/rule"
)

// skillsHistory is the name of the rule that stores the versions of the team's skills.
const skillsHistory = "skills-history"

// SkillVersions returns the versions of the team's skills, the latest last.
func SkillVersions(ctx context.Context, rules Rules) (versions []rule.Version, err error) {
	text, err := rules.Rule(ctx, TeamRules, skillsHistory)
	if err != nil || text == "" {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &versions); err != nil {
		return nil, fmt.Errorf("versions of the team's skills: %w", err)
	}
	return versions, nil
}

// PublishSkills makes v the team's skills and adds it to the versions.
func PublishSkills(ctx context.Context, rules Rules, v rule.Version) error {
	versions, err := SkillVersions(ctx, rules)
	if err != nil {
		return err
	}
	data, err := json.Marshal(rule.WithVersion(versions, v))
	if err != nil {
		return err
	}
	if err := rules.SetRule(ctx, TeamRules, skillsHistory, string(data)); err != nil {
		return err
	}
	return rules.SetRule(ctx, TeamRules, rule.SkillsFile, v.Text)
}
