package store

import (
	"context"

	"aloft/internal/account"
	"aloft/internal/agent"
)

// settingsRule is the name of the rule that stores the team's settings.
const settingsRule = "settings"

// Settings returns the history of the team's settings. If rules is nil, it is
// empty.
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

// PutSettings stores the history of the team's settings.
func PutSettings(ctx context.Context, rules Rules, h account.History) error {
	return rules.SetRule(ctx, TeamRules, settingsRule, h.String())
}

// PrivacyOf reports whether the run is in privacy mode: according to its
// journal, or otherwise according to the team's setting when the run was
// requested. Later changes of the setting apply to later runs.
func PrivacyOf(ctx context.Context, rules Rules, r agent.Run) (bool, error) {
	if r.Privacy != nil {
		return *r.Privacy, nil
	}
	h, err := Settings(ctx, rules)
	return h.At(r.CreatedAt).Privacy, err
}
