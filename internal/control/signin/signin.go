// Package signin signs people in with a browser: by password, by passkey, with
// an OpenID Connect provider, or with a link that works once. People get a
// session, which is an API key that expires, so that no other code has to know
// how they signed in.
//
// The package does not handle HTTP requests; cookies and authorization are the
// API's task. Unfinished sign-ins (a passkey's challenge, a visit to the
// provider) and the counts of failures are kept in memory and lost with the
// process. The wait doubles with each failure in a row and ends with a success,
// which a token bucket such as golang.org/x/time/rate cannot express.
package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/fault"

	"github.com/go-webauthn/webauthn/webauthn"
)

// Lifetimes of sessions, and of unfinished sign-ins and sign-in links.
const (
	sessionTTL  = 30 * 24 * time.Hour
	ceremonyTTL = 5 * time.Minute // lifetime of a passkey's challenge
	visitTTL    = 10 * time.Minute
	LinkTTL     = 72 * time.Hour // lifetime of a sign-in link
)

// Store stores users and their credentials.
type Store interface {
	store.Accounts
	store.Members
	store.SignIns
}

// Config is what a [Desk] needs. Store and PublicURL are required.
type Config struct {
	Store     Store
	PublicURL func() string // the server's URL for browsers
	Provider  *Provider     // nil if there is none
	Logger    *slog.Logger
}

// A Desk signs people in. Its methods are safe for concurrent use. Errors that
// the user can fix are faults.
type Desk struct {
	Config
	failures   *failures
	ceremonies *pending[ceremony]
	visits     *pending[visit]
}

// New returns a desk with the configuration.
func New(c Config) (*Desk, error) {
	if c.Store == nil || c.PublicURL == nil {
		return nil, errors.New("signin: a store and a public URL are required")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{Config: c, failures: newFailures(time.Now), ceremonies: newPending[ceremony](), visits: newPending[visit]()}, nil
}

// Methods lists the ways to sign in.
type Methods struct {
	Passkey  bool
	Provider string // the provider's name; "" if there is none
}

// Methods returns the ways to sign in besides passwords and links.
func (d *Desk) Methods() Methods {
	var m Methods
	_, err := d.authenticator()
	m.Passkey = err == nil
	if d.Provider != nil {
		m.Provider = d.Provider.Name
	}
	return m
}

// A Session is a signed-in user's API key and its expiry.
type Session struct {
	Token string
	account.APIKey
}

// open creates a session for the user.
func (d *Desk) open(ctx context.Context, userID int64, browser string) (Session, error) {
	u, err := d.Store.User(ctx, userID)
	if err != nil {
		return Session{}, err
	}
	if u.Disabled {
		return Session{}, fault.Denied("this user is disabled").Hint("ask an admin of this server")
	}
	token := account.NewKey()
	k, err := d.Store.AddKey(ctx, account.APIKey{
		Kind: account.Session, Name: shortened(browser), UserID: u.ID, Hash: account.HashKey(token), ExpiresAt: time.Now().Add(sessionTTL),
	})
	if err != nil {
		return Session{}, fmt.Errorf("begin a session: %w", err)
	}
	return Session{token, k}, nil
}

// maxBrowser is the maximum length of the stored browser name, in bytes.
const maxBrowser = 200

func shortened(browser string) string {
	if browser == "" {
		return "a browser"
	}
	return strings.ToValidUTF8(browser[:min(len(browser), maxBrowser)], "")
}

// linkAt is the path of a sign-in link. The token is in the fragment, which
// browsers do not send.
const linkAt = "/sign-in#link="

// NewLink creates a link that signs the user in once, and invalidates earlier
// links.
func (d *Desk) NewLink(ctx context.Context, userID int64) (link string, expires time.Time, err error) {
	token, expires := account.NewKey(), time.Now().Add(LinkTTL)
	if err := d.Store.AddLink(ctx, account.HashKey(token), userID, expires); err != nil {
		return "", time.Time{}, fmt.Errorf("make a link: %w", err)
	}
	return strings.TrimSuffix(d.PublicURL(), "/") + linkAt + token, expires, nil
}

// WithLink signs in with a link. It removes the user's password, which they may
// have forgotten, so that they can set a new one, and ends all their sessions,
// since a user who needs a link may have lost control of a session.
func (d *Desk) WithLink(ctx context.Context, token, address, browser string) (Session, error) {
	if err := d.failures.wait(addressName(address)); err != nil {
		return Session{}, err
	}
	userID, err := d.Store.TakeLink(ctx, account.HashKey(token), time.Now())
	if errors.Is(err, store.ErrNotFound) {
		d.failures.add(addressName(address))
		return Session{}, fault.Unauthenticated("this link has expired or was already used").Hint("ask an admin for another")
	}
	if err != nil {
		return Session{}, err
	}
	if err := d.Store.SetPassword(ctx, userID, ""); err != nil {
		return Session{}, err
	}
	if err := d.Store.RemoveKeys(ctx, userID, account.Session, 0); err != nil {
		return Session{}, err
	}
	return d.open(ctx, userID, browser)
}

// WithKey signs in with an API key of the user. Sub-tokens are not accepted.
func (d *Desk) WithKey(ctx context.Context, key, address, browser string) (Session, error) {
	if err := d.failures.wait(addressName(address)); err != nil {
		return Session{}, err
	}
	k, err := d.Store.Key(ctx, account.HashKey(key))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Session{}, err
	}
	if err != nil || k.Kind != account.Lasting || k.Expired(time.Now()) {
		d.failures.add(addressName(address))
		return Session{}, fault.Unauthenticated("unknown API key").Hint("check that you pasted all of it")
	}
	return d.open(ctx, k.UserID, browser)
}

// authenticator configures passkeys for the server's public address. Browsers
// require a host name and a secure connection for passkeys.
func (d *Desk) authenticator() (*webauthn.WebAuthn, error) {
	u, err := url.Parse(d.PublicURL())
	if err != nil {
		return nil, err
	}
	host := u.Hostname()
	if net.ParseIP(host) != nil || u.Scheme != "https" && host != "localhost" && !strings.HasSuffix(host, ".localhost") {
		return nil, fault.NotImplemented("passkeys require a host name and https").Hint("set public_url to the server's https address, or open it as http://localhost")
	}
	return webauthn.New(&webauthn.Config{RPID: host, RPDisplayName: "Aloft", RPOrigins: []string{u.Scheme + "://" + u.Host}})
}
