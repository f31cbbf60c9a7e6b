package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/outbound"
	"aloft/internal/fault"
	"aloft/internal/mcp"
)

// SignInStatus is the state of a user's sign-in to a server.
type SignInStatus string

// States of a sign-in.
const (
	NotSignedIn SignInStatus = ""
	SignedIn    SignInStatus = "in"
	SignInOver  SignInStatus = "over" // the provider no longer renews it
)

// SignIn returns the state of the user's sign-in to the server.
func (s *Servers) SignIn(ctx context.Context, server mcp.Server, user User) (SignInStatus, error) {
	if !server.Remote() {
		return NotSignedIn, nil
	}
	g, err := s.grant(ctx, user.ID, s.signInKey(server, user))
	switch {
	case g.Access != "" || g.Refresh != "":
		return SignedIn, err
	case g.Issuer != "":
		return SignInOver, err
	}
	return NotSignedIn, err
}

// grant returns the result of the user's sign-in, or an empty grant if there is
// none.
func (s *Servers) grant(ctx context.Context, userID int64, key string) (grant, error) {
	all, err := s.Vault.Kept(ctx, signInsOf(userID))
	if err != nil {
		return grant{}, err
	}
	for _, one := range all {
		if one.Name == key {
			var g grant
			if err := json.Unmarshal([]byte(one.Value), &g); err != nil {
				return g, fmt.Errorf("sign-in %s: %w", one.ID, err)
			}
			return g, nil
		}
	}
	return grant{}, nil
}

func (s *Servers) keepGrant(ctx context.Context, userID int64, key string, g grant) error {
	value, err := json.Marshal(g)
	if err == nil {
		_, err = s.Vault.Keep(ctx, signInsOf(userID), key, string(value))
	}
	return err
}

// token returns the token for the user's requests to a server, or "" if the
// user has not signed in. It renews a token that is about to expire or was
// refused.
func (s *Servers) token(ctx context.Context, user User, key, refused string, hc *http.Client) (string, error) {
	read := func() (g grant, renew bool, err error) {
		g, err = s.grant(ctx, user.ID, key)
		return g, err == nil && (g.Access != "" || g.Refresh != "") && (g.stale() || g.Access == refused), err
	}
	g, renew, err := read()
	if !renew {
		return g.Access, err
	}
	unlock, err := s.renewing.Lock(ctx, strconv.FormatInt(user.ID, 10)+key)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Check again: another request may have renewed the token, and a refresh
	// token is often valid only once.
	if g, renew, err = read(); !renew {
		return g.Access, err
	}
	fresh, err := g.renew(ctx, hc)
	if err != nil || fresh.Access == "" {
		if again, readErr := s.grant(ctx, user.ID, key); readErr == nil && again.Refresh != g.Refresh && !again.stale() {
			return again.Access, nil // another Aloft server has renewed the token
		}
	}
	if err != nil {
		return "", err
	}
	return fresh.Access, s.keepGrant(ctx, user.ID, key, fresh) // without a token, the server will ask for a sign-in
}

// reach returns the HTTP client for a server. For a server that a repository
// configures, this is the client with the agent's network policy; for other
// servers, it is Aloft's own client.
func (s *Servers) reach(foreign *agent.Egress) (*outbound.Client, error) {
	if foreign == nil {
		return s.Reach, nil
	}
	reach, err := s.Foreign(*foreign)
	if err == nil && reach == nil {
		err = errNoNetwork
	}
	return reach, err
}

// BeginSignIn returns the provider's address for the user's browser, and the
// state that the browser must return. foreign is set if a repository configures
// the server.
func (s *Servers) BeginSignIn(ctx context.Context, foreign *agent.Egress, server mcp.Server, user User, back ReturnTo) (address, state string, err error) {
	if !server.Remote() {
		return "", "", fault.Invalid("the server runs in machines and needs no sign-in")
	}
	reach, err := s.reach(foreign)
	if err != nil {
		return "", "", err
	}
	key := s.signInKey(server, user)
	before, err := s.grant(ctx, user.ID, key)
	if err != nil {
		return "", "", err
	}
	if err := s.forgetVisits(ctx, user.ID); err != nil {
		return "", "", err
	}
	asked := s.asked.get(user.ID, key)
	if asked == nil {
		if asked, err = s.challenge(ctx, reach, server); err != nil {
			return "", "", err
		}
	}
	var more []string
	if asked.Status == http.StatusForbidden { // the token lacks scopes: keep those that it has
		more = before.Scopes
	}
	hc := reach.Converse(maxMetadata)
	defer hc.CloseIdleConnections()
	v, address, err := begin(ctx, hc, signInRequest{
		serverURL: server.URL, challenge: asked.Challenge, more: more, redirect: cmp.Or(back.Home, s.PublicURL()) + CallbackPath,
		prefix: strconv.FormatInt(user.ID, 10) + ".", client: clientOf(server), before: before,
	})
	if err != nil {
		return "", "", err
	}
	if err := reach.Check(v.Grant.TokenURL); err != nil {
		return "", "", fault.Of(err).At("")
	}
	v.Key, v.Back, v.Foreign = key, back, foreign
	value, err := json.Marshal(v)
	if err == nil {
		_, err = s.Vault.Keep(ctx, visitsOf(user.ID), key, string(value))
	}
	return address, v.State, err
}

// challenge sends unauthenticated requests and returns the server's refusal. Some
// servers refuse only requests for their tools.
func (s *Servers) challenge(ctx context.Context, reach *outbound.Client, server mcp.Server) (*Unauthorized, error) {
	t, hidden := targetOf(server)
	opened, err := open(ctx, reach.Converse(maxReply), t, s.Version)
	if err == nil {
		_, err = opened.list(ctx, server, hidden.redactor())
		opened.close()
	}
	if err == nil {
		return nil, fault.Conflict("the server does not require a sign-in").Named("mcp_open").Hint("use it as it is")
	}
	if u, ok := errors.AsType[*Unauthorized](err); ok {
		return u, nil
	}
	return nil, Failure(err, hidden.redactor())
}

// EndSignIn finishes a sign-in when the user's browser comes back. state and
// code are from the browser's request URL, kept is from its cookie. It returns
// the user, and where the sign-in was started.
func (s *Servers) EndSignIn(ctx context.Context, state, kept, code, iss string) (userID int64, back ReturnTo, err error) {
	unknown := fault.Invalid("this sign-in was not started in this browser").Named("visit_unknown").Hint("begin it again")
	before, _, _ := strings.Cut(state, ".")
	if userID, err = strconv.ParseInt(before, 10, 64); err != nil || !constantTimeEqual(state, kept) {
		return 0, ReturnTo{}, unknown
	}
	all, err := s.Vault.Kept(ctx, visitsOf(userID))
	if err != nil {
		return 0, ReturnTo{}, err
	}
	for _, one := range all {
		var v visit
		if json.Unmarshal([]byte(one.Value), &v) != nil || !constantTimeEqual(v.State, state) {
			continue
		}
		// A sign-in can be completed only once, even if it fails.
		if err := s.Vault.Drop(ctx, visitsOf(userID), one.Name); err != nil {
			return 0, ReturnTo{}, unknown
		}
		reach, err := s.reach(v.Foreign)
		if err != nil {
			return userID, v.Back, err
		}
		hc := reach.Converse(maxMetadata)
		defer hc.CloseIdleConnections()
		g, err := v.end(ctx, hc, state, kept, code, iss)
		if errors.Is(err, errClient) {
			if err := s.forget(ctx, userID, v.Key); err != nil {
				return userID, v.Back, err
			}
		}
		if err != nil {
			return userID, v.Back, err
		}
		s.asked.set(userID, v.Key, nil)
		return userID, v.Back, s.keepGrant(ctx, userID, v.Key, g)
	}
	return 0, ReturnTo{}, unknown
}

// SignOut deletes the user's sign-in to the server.
func (s *Servers) SignOut(ctx context.Context, server mcp.Server, user User) error {
	return s.forget(ctx, user.ID, s.signInKey(server, user))
}

func (s *Servers) forget(ctx context.Context, userID int64, key string) error {
	err := s.Vault.Drop(ctx, signInsOf(userID), key)
	if fault.Is(err, fault.KindNotFound) {
		return nil
	}
	return err
}

// forgetVisits deletes the user's unfinished sign-ins.
func (s *Servers) forgetVisits(ctx context.Context, userID int64) error {
	all, err := s.Vault.Kept(ctx, visitsOf(userID))
	if err != nil {
		return err
	}
	for _, one := range all {
		if time.Since(one.CreatedAt) > visitWithin {
			if err := s.Vault.Drop(ctx, visitsOf(userID), one.Name); err != nil && !fault.Is(err, fault.KindNotFound) {
				return err
			}
		}
	}
	return nil
}
