package github

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// What GitHub settles for Apps: a proof of who the App is lives ten minutes at
// most, and a token an hour. Clocks may differ by some.
const (
	proofFor  = 9 * time.Minute
	clockSkew = time.Minute
	renewWith = 5 * time.Minute // left of a token
)

// App makes tokens as a GitHub App, in place of a token of a person: they last
// an hour and reach what the App was installed on. Git takes them too, with the
// name x-access-token. Its methods are safe for concurrent use.
type App struct {
	wire   *forge.Wire
	opts   forge.Options // of the host, without tokens
	signer jose.Signer
	issuer string
	now    func() time.Time

	mu     sync.Mutex
	owners map[string]*installation // by owner, in lower case
}

// installation is the App at one owner.
type installation struct {
	mu    sync.Mutex // held while a token is made, so that one is made at a time
	id    int64
	token string
	until time.Time
}

// AppOptions says which App it is.
type AppOptions struct {
	Host   string // as in [Options]
	API    string
	Client *http.Client
	ID     string // the App's id or client id
	Key    []byte // the private key that GitHub made: PEM
}

// NewApp returns the App. It fails if the key is none.
func NewApp(o AppOptions) (*App, error) {
	block, _ := pem.Decode(o.Key)
	if block == nil || o.ID == "" {
		return nil, errors.New("a GitHub App needs its id, and its private key as GitHub made it (PEM)")
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		other, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		var ok bool
		if key, ok = other.(*rsa.PrivateKey); err != nil || !ok {
			return nil, errors.New("the private key of the GitHub App is not an RSA key")
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, err
	}
	a := &App{signer: signer, issuer: o.ID, now: time.Now, owners: map[string]*installation{}}
	a.opts = forge.Options{Host: o.Host, API: o.API, Client: o.Client}
	proving := a.opts
	proving.Tokens = a.proof
	a.wire, err = wire(proving)
	return a, err
}

// proof says who the App is, to ask for tokens only.
func (a *App) proof(context.Context, forge.Repo) (string, error) {
	now := a.now()
	return jwt.Signed(a.signer).Claims(jwt.Claims{
		Issuer: a.issuer, IssuedAt: jwt.NewNumericDate(now.Add(-clockSkew)), Expiry: jwt.NewNumericDate(now.Add(proofFor)),
	}).Serialize()
}

// Token is a [forge.Tokens]: a token of the App's installation at the
// repository's owner, made anew when it is nearly too old.
func (a *App) Token(ctx context.Context, r forge.Repo) (string, error) {
	i := a.at(r.Owner())
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.id == 0 {
		var v struct{ ID int64 }
		err := a.wire.Do(ctx, forge.Ask{Repo: r, Path: path(r, "installation"), Out: &v})
		if fault.Is(err, fault.KindNotFound) {
			return "", fault.Denied("the GitHub App %s is not installed on %s", a.issuer, r).Named(forge.CodeNoToken).
				Hint("install it on the repository, in the settings of the App")
		}
		if err != nil {
			return "", err
		}
		i.id = v.ID
	}
	return a.renew(ctx, r, i)
}

// at is the App's installation at an owner, whether there is one or not.
func (a *App) at(owner string) *installation {
	a.mu.Lock()
	defer a.mu.Unlock()
	owner = strings.ToLower(owner)
	i := a.owners[owner]
	if i == nil {
		i = &installation{}
		a.owners[owner] = i
	}
	return i
}

// renew returns the installation's token, made anew when it is nearly too old.
// i.mu is held, and i.id known.
func (a *App) renew(ctx context.Context, r forge.Repo, i *installation) (string, error) {
	if i.token != "" && a.now().Add(renewWith).Before(i.until) {
		return i.token, nil
	}
	var v struct {
		Token     string
		ExpiresAt time.Time `json:"expires_at"`
	}
	err := a.wire.Do(ctx, forge.Ask{Repo: r, OfHost: true, Method: http.MethodPost, Path: []string{"app", "installations", strconv.FormatInt(i.id, 10), "access_tokens"}, Out: &v})
	if fault.Is(err, fault.KindNotFound) {
		i.id = 0 // uninstalled, and perhaps installed anew
	}
	if err != nil {
		return "", err
	}
	i.token, i.until = v.Token, v.ExpiresAt
	return i.token, nil
}
