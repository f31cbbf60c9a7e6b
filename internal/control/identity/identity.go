// Package identity signs short-lived OpenID Connect tokens for the programs in
// a machine. A token proves to other services which agent a program belongs to.
// A cloud or a vault that trusts this server accepts tokens, so the agent needs
// no long-lived secret.
//
// The package does not authenticate requests: the connection of a request
// identifies its machine.
package identity

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"

	"aloft/internal/fault"
)

// Lifetime is how long a token is valid. Existing clients rely on it.
const Lifetime = 5 * time.Minute

// Limits on the fields of a machine's request, in bytes.
const (
	maxAudience = 1024
	maxNonce    = 512
)

// Paths of the public documents, relative to the issuer's URL.
const (
	DiscoveryPath = "/.well-known/openid-configuration"
	KeysPath      = "/.well-known/jwks.json"
)

// A Workload is the agent, user and repository that a token identifies.
type Workload struct {
	AgentID string
	RunID   string
	OwnerID string
	Email   string // the owner's address; "" if unknown
	Repo    string // URL of the repository; "" if there is none
	Branch  string
}

// subject returns the claim sub. Other services match it, and some can match no
// other claim. It starts with the repository, so that a rule may end in a
// wildcard.
func (w Workload) subject() string {
	if repo := w.repo(); repo != "" {
		return "repo:" + strings.ReplaceAll(repo, ":", "%3A") + ":agent:" + w.AgentID
	}
	return "agent:" + w.AgentID
}

// repo returns the repository as github.com/org/name, without its scheme and
// credential. A repository on the server's own host keeps its scheme, so that
// it cannot be confused with a repository of another host.
func (w Workload) repo() string {
	text := w.Repo
	if text == "" {
		return ""
	}
	if at, rest, ok := strings.Cut(text, ":"); ok && !strings.HasPrefix(rest, "//") {
		text = "ssh://" + at + "/" + rest // git@github.com:org/name
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	clean := url.URL{Path: strings.TrimSuffix(path.Clean("/"+u.Path), ".git")} // normalize the path like git's clients
	if u.Host == "" {
		return "file://" + clean.EscapedPath()
	}
	return strings.ToLower(u.Host) + clean.EscapedPath()
}

// claims are Aloft's own claims, in addition to the registered ones.
type claims struct {
	jwt.Claims

	Nonce  string `json:"nonce,omitempty"`
	Agent  string `json:"agent"`
	Run    string `json:"run,omitempty"`
	Owner  string `json:"owner"`
	Email  string `json:"owner_email,omitempty"`
	Repo   string `json:"repo,omitempty"`
	Branch string `json:"branch,omitempty"`
}

// An Issuer signs tokens. Its methods are safe for concurrent use.
type Issuer struct {
	base func() string
	ring *ring
}

// Open returns the issuer with the keys in the file. If there are none, it
// creates keys. base is the server's URL without a trailing slash, and becomes
// the issuer's name.
func Open(path string, base func() string) (*Issuer, error) {
	r := &ring{path: path}
	if _, err := r.keys(); err != nil {
		return nil, err
	}
	return &Issuer{base, r}, nil
}

// Token signs a token that identifies the workload, for the given audience
// only.
func (i *Issuer) Token(w Workload, audience, nonce string) (token string, expires time.Time, err error) {
	switch {
	case audience == "":
		return "", time.Time{}, fault.Invalid("aud is missing: name the audience of the token").At("aud")
	case len(audience) > maxAudience, !utf8.ValidString(audience):
		return "", time.Time{}, fault.Invalid("aud must be text of at most %d bytes", maxAudience).At("aud")
	case len(nonce) > maxNonce, !utf8.ValidString(nonce):
		return "", time.Time{}, fault.Invalid("nonce must be text of at most %d bytes", maxNonce).At("nonce")
	}
	k, err := i.ring.signing()
	if err != nil {
		return "", time.Time{}, err
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign a token: %w", err)
	}
	now := time.Now().Truncate(time.Second)
	expires = now.Add(Lifetime)
	token, err = jwt.Signed(signer).Claims(claims{
		Claims: jwt.Claims{
			Issuer: i.base(), Subject: w.subject(), Audience: jwt.Audience{audience}, ID: uuid.NewString(),
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(expires),
		},
		Nonce: nonce, Agent: w.AgentID, Run: w.RunID, Owner: w.OwnerID, Email: w.Email, Repo: w.repo(), Branch: w.Branch,
	}).Serialize()
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign a token: %w", err)
	}
	return token, expires, nil
}

// Discovery is the document at [DiscoveryPath].
func (i *Issuer) Discovery() ([]byte, error) {
	base := i.base()
	return json.Marshal(map[string]any{
		"issuer":                                base,
		"jwks_uri":                              base + KeysPath,
		"response_types_supported":              []string{"id_token"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{string(jose.RS256)},
		"scopes_supported":                      []string{"openid"},
		"claims_supported": []string{
			"iss", "sub", "aud", "exp", "iat", "nbf", "jti", "nonce", "agent", "run", "owner", "owner_email", "repo", "branch",
		},
	})
}

// Keys is the JWKS document at [KeysPath]: the signing key, the next key, and
// recently retired keys.
func (i *Issuer) Keys() ([]byte, error) {
	keys, err := i.ring.keys()
	if err != nil {
		return nil, err
	}
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Algorithm: string(jose.RS256), Use: "sig"})
	}
	return json.Marshal(set)
}
