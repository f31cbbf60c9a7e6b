package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// identify authenticates a request by its API key: a bearer token, the user
// name of basic authentication with an empty password, or the session cookie of
// a browser.
func (s *server) identify(r *http.Request) (account.APIKey, error) {
	key := bearer(r)
	if c, err := r.Cookie(s.cookieName()); err == nil && r.Header.Get("Authorization") == "" {
		return s.signedIn(r, c.Value)
	}
	if key == "" {
		return account.APIKey{}, fault.Unauthenticated("an API key is required").Hint("send it as Authorization: Bearer KEY")
	}
	return goodKey(r.Context(), s.Accounts, account.HashKey(key))
}

// signedIn returns the session of a cookie. Browsers also send the cookie with
// requests that other sites cause, so requests that change anything must come
// from this origin.
func (s *server) signedIn(r *http.Request, token string) (account.APIKey, error) {
	if changes(r) {
		if err := sameSite(r, s.PublicURL()); err != nil {
			return account.APIKey{}, err
		}
	}
	k, err := goodKey(r.Context(), s.Accounts, account.HashKey(token))
	if err == nil && k.Kind != account.Session {
		err = fault.Unauthenticated("an API key cannot be used as a session").Hint("sign in")
	}
	return k, err
}

// goodKey returns the key with the given hash, if it is valid.
func goodKey(ctx context.Context, accounts store.Accounts, hash [sha256.Size]byte) (account.APIKey, error) {
	k, err := accounts.Key(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return account.APIKey{}, fault.Unauthenticated("unknown API key")
	case err != nil:
		return account.APIKey{}, fmt.Errorf("look up an API key: %w", err)
	case k.Expired(time.Now()) && k.Kind == account.Session:
		return account.APIKey{}, fault.Unauthenticated("this session has ended").Hint("sign in again")
	case k.Expired(time.Now()) && k.Kind == account.Lasting:
		return account.APIKey{}, fault.Unauthenticated("this API key has expired").Hint("sign in to the dashboard and create a new one")
	case k.Expired(time.Now()):
		return account.APIKey{}, fault.Unauthenticated("this token has expired").Hint("request a new one with POST /v1/sub-tokens")
	case k.Disabled:
		return account.APIKey{}, fault.Unauthenticated("this user is disabled").Hint("ask an admin of this server")
	}
	return k, nil
}

// mayUse returns nil if the user may do what the route does.
func mayUse(rt route, who account.APIKey) error {
	if who.Role.Covers(rt.least()) {
		return nil
	}
	if rt.least() == account.Member {
		return fault.Denied("viewers can only read").Named(codeRole).Hint("ask an admin for the member role")
	}
	if rt.least() == account.Admin {
		return fault.Denied("only the team's admins may do this").Named(codeTeamAdmin).Hint("ask one of them to do it, or for their role")
	}
	return fault.Denied("only the team's %ss may do this", rt.least()).Named(codeRole).Hint("ask one of them to do it, or for their role")
}

// bearer returns the key in the Authorization header, or "".
func bearer(r *http.Request) string {
	if name, password, ok := r.BasicAuth(); ok {
		if password != "" {
			return ""
		}
		return name
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}
