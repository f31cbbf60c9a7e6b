package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// identify returns the key that a request bears, as a bearer token or as the
// name of basic authentication with an empty password.
func (s *server) identify(r *http.Request) (account.APIKey, error) {
	key := bearer(r)
	if key == "" {
		return account.APIKey{}, fault.Unauthenticated("an API key is needed").Hint("send it as Authorization: Bearer KEY")
	}
	k, err := s.Accounts.Key(r.Context(), account.HashKey(key))
	if err != nil {
		return account.APIKey{}, fmt.Errorf("look up an API key: %w", unknownKey(err))
	}
	if k.Expired(time.Now()) {
		return account.APIKey{}, fault.Unauthenticated("this token has expired").Hint("ask POST /v1/sub-tokens for another")
	}
	return k, nil
}

// unknownKey turns the store's word for a key that it has not into the API's.
func unknownKey(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fault.Unauthenticated("this API key is not known here")
	}
	return err
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
