package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"aloft/internal/account"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// A Provider is an OpenID Connect provider at which people sign in. The server
// first contacts it when needed, so the server can start while the provider is
// down.
type Provider struct {
	Name         string // shown to people
	Issuer       string
	ClientID     string
	ClientSecret string
	Domains      []string     // email domains whose users may sign in without an invitation; default none
	Role         account.Role // role of those users; default member
	Client       *http.Client // nil means the default client

	mu    sync.Mutex
	found *oidc.Provider
}

// providerWithin is the timeout for requests to the provider.
const providerWithin = 15 * time.Second

// A visit is an unfinished sign-in with the provider.
type visit struct {
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// CallbackPath is the path to which the provider redirects.
const CallbackPath = "/v1/session/provider/callback"

func (p *Provider) find(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		// The verifier fetches keys later, so its context must not end.
		found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client()), p.Issuer)
		if err != nil {
			return nil, fault.Unavailable("%s cannot be reached", p.Name).Hint("try again, or sign in another way").Because(err)
		}
		p.found = found
	}
	return p.found, nil
}

func (p *Provider) client() *http.Client {
	c := http.Client{}
	if p.Client != nil {
		c = *p.Client
	}
	c.Timeout, c.Transport = providerWithin, bounded{c.Transport}
	return &c
}

// maxProviderReply is the maximum size of a provider's reply after decompression, in
// bytes. Lists of keys are the largest: those of large providers have 60 KiB.
const maxProviderReply = 256 << 10

// bounded limits each reply, which the libraries read to its end. A nil next is the
// default transport.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	next := b.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxProviderReply)
	}
	return resp, err
}

func (d *Desk) oauth(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	if d.Provider == nil {
		return nil, nil, fault.NotImplemented("no sign-in provider is configured on this server").Hint("configure sign_in.oidc")
	}
	found, err := d.Provider.find(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &oauth2.Config{
		ClientID: d.Provider.ClientID, ClientSecret: d.Provider.ClientSecret, Endpoint: found.Endpoint(),
		RedirectURL: strings.TrimSuffix(d.PublicURL(), "/") + CallbackPath, Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
	}, found, nil
}

// BeginVisit returns the provider's URL to which the browser must go, and the
// state that the browser must bring back.
func (d *Desk) BeginVisit(ctx context.Context) (address, state string, err error) {
	c, _, err := d.oauth(ctx)
	if err != nil {
		return "", "", err
	}
	v := visit{Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	if state, err = d.visits.put(v, visitTTL); err != nil {
		return "", "", err
	}
	return c.AuthCodeURL(state, oidc.Nonce(v.Nonce), oauth2.S256ChallengeOption(v.Verifier)), state, nil
}

// claims are the fields of an ID token that are used.
type claims struct {
	Email    string `json:"email"`
	Verified bool   `json:"email_verified"`
	Given    string `json:"given_name"`
	Family   string `json:"family_name"`
	Name     string `json:"name"`
}

// EndVisit signs in the user whom the provider has redirected with a code. kept
// is the state in the browser's cookie, which proves that this browser began
// the sign-in.
func (d *Desk) EndVisit(ctx context.Context, code, state, kept, browser string) (Session, error) {
	v, ok := d.visits.take(state)
	if !ok || v.Verifier == "" || subtle.ConstantTimeCompare([]byte(state), []byte(kept)) != 1 {
		return Session{}, errCeremony()
	}
	c, found, err := d.oauth(ctx)
	if err != nil {
		return Session{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, d.Provider.client()), providerWithin)
	defer cancel()
	unaccepted := fault.Unauthenticated("the reply of %s was not accepted", d.Provider.Name).Hint("try again")
	token, err := c.Exchange(ctx, code, oauth2.VerifierOption(v.Verifier))
	if err != nil {
		return Session{}, unaccepted.Because(err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := found.Verifier(&oidc.Config{ClientID: c.ClientID}).Verify(ctx, raw)
	if err != nil {
		return Session{}, unaccepted.Because(err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(v.Nonce)) != 1 {
		return Session{}, unaccepted.Because(errors.New("the nonce does not match"))
	}
	var who claims
	if err := id.Claims(&who); err != nil {
		return Session{}, unaccepted.Because(err)
	}
	if who.Email == "" { // some providers include the address only in the user info
		info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err == nil && info.Subject == id.Subject {
			err = info.Claims(&who)
		}
		if err != nil {
			return Session{}, unaccepted.Because(err)
		}
	}
	userID, err := d.findUser(ctx, id.Issuer, id.Subject, who)
	if err != nil {
		return Session{}, err
	}
	return d.open(ctx, userID, browser)
}

// findUser returns the user for an identity: the user who signed in with it
// before, or the user with the verified email address, or a new user if the
// domain of the address is allowed.
func (d *Desk) findUser(ctx context.Context, issuer, subject string, who claims) (int64, error) {
	id, err := d.Store.Identity(ctx, issuer, subject)
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return id, err
	}
	if who.Email == "" || !who.Verified {
		return 0, fault.Denied("%s has not verified your e-mail address", d.Provider.Name).Hint("verify it there, or ask an admin for a link")
	}
	u, err := d.Store.UserByEmail(ctx, who.Email)
	if errors.Is(err, store.ErrNotFound) {
		u, err = d.welcome(ctx, who)
	}
	if err != nil {
		return 0, err
	}
	if err := d.Store.AddIdentity(ctx, issuer, subject, u.ID); err != nil && !errors.Is(err, store.ErrExists) {
		return 0, err
	}
	return u.ID, nil
}

// welcome creates a new user.
func (d *Desk) welcome(ctx context.Context, who claims) (account.User, error) {
	_, domain, _ := strings.Cut(who.Email, "@")
	if !slices.ContainsFunc(d.Provider.Domains, func(d string) bool { return strings.EqualFold(d, domain) }) {
		return account.User{}, fault.Denied("you are not a member here").Hint("ask an admin to invite %s", who.Email)
	}
	u := account.User{Email: who.Email, FirstName: who.Given, LastName: who.Family, Role: d.Provider.Role}
	if u.FirstName == "" && u.LastName == "" {
		u.FirstName = who.Name
	}
	u, err := d.Store.AddUser(ctx, u)
	if err != nil {
		return u, fmt.Errorf("add %s: %w", who.Email, err)
	}
	return u, nil
}
