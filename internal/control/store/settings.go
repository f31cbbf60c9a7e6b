package store

import (
	"context"

	"aloft/internal/account"
)

// settingsRule is the name under which the team's settings are kept.
const settingsRule = "settings"

// Settings returns how the team's settings were over time; of nil rules nothing
// was ever settled.
func Settings(ctx context.Context, rules Rules) (account.History, error) {
	if rules == nil {
		return account.History{}, nil
	}
	text, err := rules.Rule(ctx, TeamRules, settingsRule)
	if err != nil {
		return account.History{}, err
	}
	return account.ParseHistory(text)
}

// Settle keeps them.
func Settle(ctx context.Context, rules Rules, h account.History) error {
	return rules.SetRule(ctx, TeamRules, settingsRule, h.String())
}
