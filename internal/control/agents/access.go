package agents

import (
	"context"
	"fmt"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// Codes of faults that other packages return too.
const (
	CodeNoRepository  = "repository_required"
	CodeNoEnvironment = "environment_not_found"
	CodeBusy          = "agent_busy" // the agent has an active run
)

// ActFor returns the key with which the server acts for a user. It fails if the
// user cannot start agents.
func ActFor(ctx context.Context, accounts store.Accounts, userID int64) (account.APIKey, error) {
	user, err := accounts.User(ctx, userID)
	if err != nil {
		return account.APIKey{}, err
	}
	if user.Disabled || !user.Role.Covers(account.Member) {
		return account.APIKey{}, fault.Denied("the account of %s may not start agents", user.Name()).Hint("ask an admin")
	}
	return account.APIKey{UserID: user.ID, Role: user.Role}, nil
}

// MayReach returns a fault unless the caller may run agents on the repositories.
func MayReach(ctx context.Context, rules store.Rules, by account.APIKey, repos []agent.Repo) error {
	access, err := store.Access(ctx, rules)
	if err != nil {
		return err
	}
	for i, r := range repos {
		if !access.Reaches(by.UserID, by.Role, secret.Repo(r.URL)) {
			return store.Unreachable(r.URL).At(fmt.Sprintf("repos[%d].url", i))
		}
	}
	return nil
}
