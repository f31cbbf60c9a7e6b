package rest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Identify authenticates a request by its API key: a bearer token, the user
// name of basic authentication with an empty password, or the session cookie of
// a browser.
func (s *Shared) Identify(r *http.Request) (account.APIKey, error) {
	key := bearer(r)
	if c, err := r.Cookie(s.CookieName()); err == nil && r.Header.Get("Authorization") == "" {
		return s.signedIn(r, c.Value)
	}
	if key == "" {
		return account.APIKey{}, fault.Unauthenticated("an API key is required").Hint("send it as Authorization: Bearer KEY")
	}
	return KeyOf(r.Context(), s.Accounts, account.HashKey(key))
}

// signedIn returns the session of a cookie. Browsers may also send the cookie
// with requests that other sites cause, so a request that changes anything must
// come from this origin.
func (s *Shared) signedIn(r *http.Request, token string) (account.APIKey, error) {
	if changes(r) {
		if err := SameSite(r, s.PublicURL()); err != nil {
			return account.APIKey{}, err
		}
	}
	k, err := KeyOf(r.Context(), s.Accounts, account.HashKey(token))
	if err == nil && k.Kind != account.Session {
		err = fault.Unauthenticated("an API key cannot be used as a session").Hint("sign in")
	}
	return k, err
}

// KeyOf returns the key with the given hash, if it is valid.
func KeyOf(ctx context.Context, accounts store.Accounts, hash [sha256.Size]byte) (account.APIKey, error) {
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

// MayUse returns nil if the user may use the route.
func MayUse(rt Route, who account.APIKey) error {
	if who.Role.Covers(rt.Least()) {
		return nil
	}
	if rt.Least() == account.Member {
		return fault.Denied("viewers can only read").Named(CodeRole).Hint("ask an admin for the member role")
	}
	if rt.Least() == account.Admin {
		return fault.Denied("only the team's admins may do this").Named(CodeTeamAdmin).Hint("ask one of them to do it, or for their role")
	}
	return fault.Denied("only the team's %ss may do this", rt.Least()).Named(CodeRole).Hint("ask one of them to do it, or for their role")
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

// Secure reports whether browsers reach the server over https.
func (s *Shared) Secure() bool { return strings.HasPrefix(s.PublicURL(), "https:") }

// hostPrefix begins the names of cookies under https. With the prefix, browsers
// accept such a cookie only from this host, not from other hosts of its domain,
// such as a preview.
const hostPrefix = "__Host-"

// CookieName returns the name of the session cookie.
func (s *Shared) CookieName() string {
	if s.Secure() {
		return hostPrefix + "aloft"
	}
	return "aloft_session"
}

// VisitCookie returns the cookie in which a browser keeps the state of a
// sign-in with another site, until the provider redirects the browser to the
// path. An empty state returns the cookie that removes it.
func (s *Shared) VisitCookie(name, path, state string) *http.Cookie {
	c := &http.Cookie{Name: name, Value: state, Path: path, MaxAge: 600, HttpOnly: true, Secure: s.Secure(), SameSite: http.SameSiteLaxMode}
	if s.Secure() {
		c.Name, c.Path = hostPrefix+name, "/" // the prefix requires the path /
	}
	if state == "" {
		c.MaxAge = -1
	}
	return c
}

// VisitState returns the state that the browser kept, or "".
func (s *Shared) VisitState(r *http.Request, name string) string {
	c, err := r.Cookie(s.VisitCookie(name, "/", "").Name)
	if err != nil {
		return ""
	}
	return c.Value
}

// AddressOf returns the address that a request came from. If that address is a
// trusted proxy, the address that the proxy has appended to X-Forwarded-For
// replaces it, and so on along a chain of trusted proxies. Headers of other
// clients are ignored.
func (s *Shared) AddressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	chain := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for len(chain) > 0 && s.trusts(host) {
		from, err := netip.ParseAddr(strings.TrimSpace(chain[len(chain)-1]))
		if err != nil {
			break
		}
		host, chain = from.Unmap().WithZone("").String(), chain[:len(chain)-1]
	}
	return host
}

// trusts reports whether a host is one of the configured proxies.
func (s *Shared) trusts(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr.Unmap().WithZone("")) })
}

// MayReach returns a fault unless the caller may run agents on the repositories.
func (s *Shared) MayReach(ctx context.Context, who account.APIKey, repos []agent.Repo) error {
	return agents.MayReach(ctx, s.Rules, who, repos)
}

// MayAdd returns an error if the given numbers of additional agents, running
// runs and snapshots would exceed the user's quotas.
func (s *Shared) MayAdd(ctx context.Context, userID int64, more agents.Quotas) error {
	return s.Quotas.MayAdd(ctx, s.Agents, userID, more)
}

// NameOf returns a user's name for messages. For user 0, it returns the words
// for a timeout.
func (s *Shared) NameOf(ctx context.Context, userID int64) string {
	if userID == 0 {
		return "the timeout"
	}
	u, err := s.Accounts.User(ctx, userID)
	name := strings.TrimSpace(u.FirstName + " " + u.LastName)
	switch {
	case err != nil:
		return "somebody"
	case name == "" || u.Email != "" && name == u.Email:
		return u.Email
	case u.Email == "":
		return name
	}
	return name + " (" + u.Email + ")"
}

// Audit records what a user did or tried to do; userID is 0 if the user is
// unknown. If the entry cannot be written, Audit logs the error and does not
// undo the action.
func (s *Shared) Audit(r *http.Request, action string, userID int64, target string, err error) {
	a := account.Audit{Time: time.Now(), UserID: userID, Address: s.AddressOf(r), Action: action, Target: target, Outcome: "ok"}
	if err != nil {
		a.Outcome = FaultOf(err).Code
	}
	const most = 200 // bytes; limited because anyone can try to sign in with any address
	a.Target = strings.ToValidUTF8(a.Target[:min(len(a.Target), most)], "")
	if err := s.AuditLog.AddAudit(context.WithoutCancel(r.Context()), a); err != nil {
		s.Logger.ErrorContext(r.Context(), "cannot write the audit log", "action", action, "user", userID, "error", err)
	}
}
