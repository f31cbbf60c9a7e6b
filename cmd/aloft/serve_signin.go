package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/signin"
	"aloft/internal/control/store"
)

// signInConfig is how people sign in, besides passwords, passkeys and links.
type signInConfig struct {
	OIDC oidcConfig `yaml:"oidc"`
}

// oidcConfig is a provider of OpenID Connect.
type oidcConfig struct {
	Name            string   `yaml:"name"`              // what people call it; the issuer's host unless given
	Issuer          string   `yaml:"issuer"`            // https://accounts.example.com; "" is none
	ClientID        string   `yaml:"client_id"`         // of this server, whose address for callbacks is /v1/session/provider/callback
	ClientSecret    string   `yaml:"client_secret"`     // the secret itself
	ClientSecretEnv string   `yaml:"client_secret_env"` // or the variable that holds it
	Domains         []string `yaml:"domains"`           // whose verified addresses may come without an invitation
	Role            string   `yaml:"role"`              // of those: member unless given
}

func (c *signInConfig) check(getenv func(string) string) error {
	o := &c.OIDC
	if err := fromEnv(&o.ClientSecret, o.ClientSecretEnv, "sign_in.oidc.client_secret", getenv); err != nil {
		return err
	}
	if o.Issuer == "" {
		if o.ClientID != "" {
			return errors.New("sign_in.oidc.issuer is missing: it is the provider's address, as https://accounts.example.com")
		}
		return nil
	}
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !loopback(u) {
		return fmt.Errorf("sign_in.oidc.issuer: %q is no address as https://accounts.example.com", o.Issuer)
	}
	if o.ClientID == "" {
		return errors.New("sign_in.oidc.client_id is missing: the provider gives it, for the callback /v1/session/provider/callback")
	}
	if o.Name == "" {
		o.Name = u.Hostname()
	}
	if o.Role == "" {
		o.Role = string(account.Member)
	}
	switch role := account.Role(o.Role); role {
	case account.Member, account.Viewer:
	default:
		return fmt.Errorf("sign_in.oidc.role: %q is neither member nor viewer", o.Role)
	}
	for i, d := range o.Domains {
		if d == "" || strings.ContainsAny(d, "@*/ ") {
			return fmt.Errorf("sign_in.oidc.domains[%d]: %q is no domain as example.com", i, d)
		}
	}
	return nil
}

func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// named is the address under its name, where it is this host's own: browsers
// have passkeys for names alone.
func named(address string) string {
	u, err := url.Parse(address)
	if err != nil || !loopback(u) {
		return address
	}
	if port := u.Port(); port != "" {
		u.Host = net.JoinHostPort("localhost", port)
	} else {
		u.Host = "localhost"
	}
	return u.String()
}

// provider is nil where there is none.
func (c oidcConfig) provider() *signin.Provider {
	if c.Issuer == "" {
		return nil
	}
	return &signin.Provider{Name: c.Name, Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret, Domains: c.Domains, Role: account.Role(c.Role)}
}

// firstLink makes a link for the owner while nobody has a way to sign in; "" is
// that somebody has.
func (s *server) firstLink(ctx context.Context) string {
	can, err := s.store.CanSignIn(ctx)
	if err != nil || can {
		return ""
	}
	users, err := s.store.Users(ctx)
	if err != nil {
		return ""
	}
	for _, u := range users {
		if u.Role != account.Owner || u.Disabled {
			continue
		}
		link, _, err := s.desk.NewLink(ctx, u.ID)
		if err != nil {
			s.logger.Error("no link to sign in can be made", "error", err)
		}
		return link
	}
	return ""
}

// shownOutside reports whether what an agent says in a run may be told outside: as
// the team had set the display of summaries when the agent was made, and privacy
// mode when the run began.
func shownOutside(rules store.Rules) func(context.Context, agent.Agent, agent.Run) (bool, error) {
	return func(ctx context.Context, a agent.Agent, r agent.Run) (bool, error) {
		private, err := store.PrivacyOf(ctx, rules, r)
		if private || err != nil {
			return false, err
		}
		h, err := store.Settings(ctx, rules)
		return h.At(a.CreatedAt).ShownOutside(), err
	}
}

// privacyOf reports whether a run is in privacy mode.
func privacyOf(rules store.Rules) func(context.Context, agent.Run) (bool, error) {
	return func(ctx context.Context, r agent.Run) (bool, error) { return store.PrivacyOf(ctx, rules, r) }
}

// mayReach returns a fault unless a user may run agents on a repository.
func mayReach(of interface {
	store.Rules
	store.Accounts
}) func(context.Context, int64, string) error {
	return func(ctx context.Context, userID int64, repoURL string) error {
		return store.MayReach(ctx, of, of, userID, repoURL)
	}
}
