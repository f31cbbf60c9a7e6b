package store

import (
	"context"

	"aloft/internal/account"
	"aloft/internal/agent"
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

// PrivacyOf reports whether the run is in privacy mode: what its journal has
// recorded, or else what the team had set when the run was asked for. Later
// changes of the setting count for later runs.
func PrivacyOf(ctx context.Context, rules Rules, r agent.Run) (bool, error) {
	if r.Privacy != nil {
		return *r.Privacy, nil
	}
	h, err := Settings(ctx, rules)
	return h.At(r.CreatedAt).Privacy, err
}
