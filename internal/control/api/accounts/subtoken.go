package accounts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// subTokenTTL is how long a sub-token is valid.
const subTokenTTL = time.Hour

// theTeamID is the id of the server's only team.
const theTeamID = 1

type createSubTokenRequestJSON struct {
	_            struct{} `json:"-" additionalProperties:"true"`
	ForUserEmail *string  `json:"forUserEmail,omitempty" format:"email" minLength:"1"`
	ForUserID    *int64   `json:"forUserId,omitempty" minimum:"1" doc:"instead of forUserEmail"`
}

type createSubTokenResponseJSON struct {
	_           struct{}  `json:"-" additionalProperties:"true"`
	AccessToken string    `json:"accessToken" minLength:"1"`
	ExpiresAt   time.Time `json:"expiresAt"`
	UserID      int64     `json:"userId"`
	TeamID      int64     `json:"teamId"`
}

// createSubToken lets an admin's program act as a user for a limited time. The
// admin must have the right to change the user, so that nobody gains rights. A
// sub-token cannot create sub-tokens, or it could renew itself forever.
func (s *API) createSubToken(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if who.Kind != account.Lasting {
		return fault.Denied("only an admin's API key can create sub-tokens").Named("service_account_required").Hint("use a key from POST /v1/me/keys")
	}
	var in createSubTokenRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	u, err := s.subTokenUser(r.Context(), in)
	if err != nil {
		return err
	}
	if u.Disabled {
		return fault.Denied("the user %d is disabled", u.ID).Named("team_membership_required").Hint("enable them first")
	}
	if u.ID != who.UserID {
		if err := mayCare(who, u.Role); err != nil {
			return err
		}
	}
	key := account.NewKey()
	expires := rest.Stamp(time.Now().Add(subTokenTTL))
	_, err = s.Accounts.AddKey(r.Context(), account.APIKey{Kind: account.SubToken, Name: "sub-token of " + who.Name, UserID: u.ID, Hash: account.HashKey(key), ExpiresAt: expires})
	if err != nil {
		return fmt.Errorf("make a sub-token: %w", err)
	}
	return rest.WriteJSON(w, http.StatusOK, createSubTokenResponseJSON{AccessToken: key, ExpiresAt: expires, UserID: u.ID, TeamID: theTeamID})
}

func (s *API) subTokenUser(ctx context.Context, in createSubTokenRequestJSON) (u account.User, err error) {
	field := "forUserEmail"
	switch {
	case (in.ForUserEmail == nil) == (in.ForUserID == nil):
		return u, fault.Invalid("forUserEmail or forUserId is required")
	case in.ForUserID != nil:
		field = "forUserId"
		u, err = s.Accounts.User(ctx, *in.ForUserID)
	case *in.ForUserEmail == "":
		return u, fault.Invalid("must not be empty").At(field)
	default:
		u, err = s.Accounts.UserByEmail(ctx, *in.ForUserEmail)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = fault.NotFound("no such member").Named("team_membership_required").At(field)
	}
	return u, err
}
