package store

import (
	"context"
	"fmt"

	"aloft/internal/account"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// accessRule is the name of the rule that stores which repositories members can
// use.
const accessRule = "repository-access"

// Access returns which repositories members can use. If rules is nil, they can
// use everything that the server's credentials can access.
func Access(ctx context.Context, rules Rules) (account.Access, error) {
	if rules == nil {
		return account.Access{}, nil
	}
	text, err := rules.Rule(ctx, TeamRules, accessRule)
	if err != nil {
		return account.Access{}, err
	}
	return account.ParseAccess(text)
}

// SetAccess stores which repositories members can use.
func SetAccess(ctx context.Context, rules Rules, a account.Access) error {
	return rules.SetRule(ctx, TeamRules, accessRule, a.String())
}

// MayReach returns a fault with the code repository_access unless the user may
// run agents on the repository. User 0 is the team, which may use all
// repositories.
func MayReach(ctx context.Context, rules Rules, accounts interface {
	User(ctx context.Context, id int64) (account.User, error)
}, userID int64, repoURL string) error {
	a, err := Access(ctx, rules)
	if err != nil || !a.Limited || userID == 0 {
		return err
	}
	u, err := accounts.User(ctx, userID)
	if err != nil {
		return fmt.Errorf("user %d: %w", userID, err)
	}
	if !a.Reaches(userID, u.Role, secret.Repo(repoURL)) {
		return Unreachable(repoURL)
	}
	return nil
}

// Unreachable returns the fault for a repository that is on none of the user's
// lists.
func Unreachable(repoURL string) *fault.Error {
	return fault.Denied("you may not run agents on %s", secret.Repo(repoURL)).Named("repository_access").
		Hint("an admin can add it: `aloft access allow`")
}
