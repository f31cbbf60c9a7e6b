package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"aloft/internal/account"
	"aloft/internal/atomicfile"
	"aloft/internal/control/signin"
)

// signInConfig configures sign-in methods besides passwords, passkeys and links.
type signInConfig struct {
	OIDC oidcConfig `yaml:"oidc"`
}

// oidcConfig is an OpenID Connect provider.
type oidcConfig struct {
	Name            string   `yaml:"name"`              // display name; default the issuer's host
	Issuer          string   `yaml:"issuer"`            // such as https://accounts.example.com; "" means no provider
	ClientID        string   `yaml:"client_id"`         // client id of this server; its callback path is /v1/session/provider/callback
	ClientSecret    string   `yaml:"client_secret"`     // the secret itself
	ClientSecretEnv string   `yaml:"client_secret_env"` // or the environment variable with the secret
	Domains         []string `yaml:"domains"`           // verified e-mail addresses in these domains may join without an invitation
	Role            string   `yaml:"role"`              // role of members who join by their domain; default member
}

func (c *signInConfig) check(getenv func(string) string) error {
	o := &c.OIDC
	if err := fromEnv(&o.ClientSecret, o.ClientSecretEnv, "sign_in.oidc.client_secret", getenv); err != nil {
		return err
	}
	if o.Issuer == "" {
		if o.ClientID != "" {
			return errors.New("sign_in.oidc.issuer is missing: set it to the provider's address, such as https://accounts.example.com")
		}
		return nil
	}
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !loopback(u) {
		return fmt.Errorf("sign_in.oidc.issuer: invalid address %q: use an address such as https://accounts.example.com", o.Issuer)
	}
	if o.ClientID == "" {
		return errors.New("sign_in.oidc.client_id is missing: register this server with the provider, with the callback path /v1/session/provider/callback")
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
		return fmt.Errorf("sign_in.oidc.role: invalid value %q: must be member or viewer", o.Role)
	}
	for i, d := range o.Domains {
		if d == "" || strings.ContainsAny(d, "@*/ ") {
			return fmt.Errorf("sign_in.oidc.domains[%d]: invalid domain %q: use a name such as example.com", i, d)
		}
	}
	return nil
}

func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// localhostName replaces a loopback IP address by localhost, because browsers support passkeys
// only for host names.
func localhostName(address string) string {
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

// provider returns the provider, or nil if none is configured.
func (c oidcConfig) provider() *signin.Provider {
	if c.Issuer == "" {
		return nil
	}
	return &signin.Provider{Name: c.Name, Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret, Domains: c.Domains, Role: account.Role(c.Role)}
}

// FirstLink returns a sign-in link for the owner, or "" if somebody can already sign in.
func (s *Server) FirstLink(ctx context.Context) string {
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
			s.logger.Error("cannot create a sign-in link", "error", err)
		}
		return link
	}
	return ""
}

// SignInText returns the text to print about the owner's sign-in link. If the
// output goes to the journal of systemd, which other users may read, the link
// is written to a file in the data folder instead.
func (o Options) SignInText(link string, journal bool) string {
	const rules = "The link works once, within three days. Until somebody can sign in, every start makes a new link.\n"
	if !journal {
		return "Sign in at " + link + "\n" + rules
	}
	file := filepath.Join(o.Data, "sign-in-link")
	if err := atomicfile.Write(file, []byte(link+"\n"), 0o600); err != nil {
		return fmt.Sprintf("The sign-in link cannot be written to %s: %v\n", file, err)
	}
	return "The sign-in link is in " + file + "\n" + rules
}
