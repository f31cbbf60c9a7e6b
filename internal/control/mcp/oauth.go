package mcp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"aloft/internal/fault"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// Bounds of signing in.
const (
	visitWithin    = 10 * time.Minute // a person at the provider's pages
	discoverWithin = 20 * time.Second
	tokenWithin    = 20 * time.Second
	maxMetadata    = 1 << 20 // bytes of one reply
	maxToken       = 16 << 10
	maxScopes      = 50
	refreshBefore  = time.Minute // of a token's end
)

// CallbackPath is where providers send browsers back to.
const CallbackPath = "/v1/mcp-sign-in/callback"

// A Client is what a provider of OAuth knows Aloft as, where that was settled by
// hand.
type Client struct {
	ID, Secret string
	Scopes     []string
}

// grant is what somebody's sign-in at a server gave. It is kept sealed.
type grant struct {
	Issuer       string    `json:"issuer"`
	AuthURL      string    `json:"authUrl"`
	TokenURL     string    `json:"tokenUrl"`
	ClientID     string    `json:"clientId"`
	ClientSecret string    `json:"clientSecret,omitempty"`
	Style        int       `json:"style"` // of oauth2.AuthStyle
	Scopes       []string  `json:"scopes,omitempty"`
	Resource     string    `json:"resource"`
	RedirectURL  string    `json:"redirectUrl"`
	Access       string    `json:"access,omitempty"`
	Refresh      string    `json:"refresh,omitempty"`
	Expires      time.Time `json:"expires,omitzero"`
}

func (g grant) config() *oauth2.Config {
	return &oauth2.Config{
		ClientID: g.ClientID, ClientSecret: g.ClientSecret, RedirectURL: g.RedirectURL, Scopes: g.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: g.AuthURL, TokenURL: g.TokenURL, AuthStyle: oauth2.AuthStyle(g.Style)},
	}
}

// visit is a sign-in under way. It is kept sealed, so that another server, or
// this one started again, can end it.
type visit struct {
	Grant    grant     `json:"grant"`
	Key      string    `json:"key"` // of the sign-in
	State    string    `json:"state"`
	Verifier string    `json:"verifier"`
	Iss      bool      `json:"iss,omitempty"` // the provider says who it is when it sends the browser back
	Until    time.Time `json:"until"`
	Back     Back      `json:"back"`
}

// Back is where a sign-in came from.
type Back struct {
	Server     string `json:"server"` // by its name
	AgentID    string `json:"agentId,omitempty"`
	ApprovalID string `json:"approvalId,omitempty"` // the question that the sign-in answers
}

// begin finds out where one signs in to a server, by how it refused to speak, and
// returns a visit there, whose state begins with prefix, and the address to send a
// browser to.
func begin(ctx context.Context, hc *http.Client, serverURL, redirect, prefix string, challenge []string, own Client, before grant) (visit, string, error) {
	ctx, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	g, meta, err := discover(ctx, hc, serverURL, challenge, own.Scopes)
	if err != nil {
		return visit{}, "", signInFault(err)
	}
	g.RedirectURL = redirect
	if err := register(ctx, hc, &g, meta, own, before); err != nil {
		return visit{}, "", signInFault(err)
	}
	v := visit{Grant: g, State: prefix + oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(), Iss: meta.AuthorizationResponseIssParameterSupported, Until: time.Now().Add(visitWithin).UTC()}
	address := g.config().AuthCodeURL(v.State, oauth2.S256ChallengeOption(v.Verifier), oauth2.SetAuthURLParam("resource", g.Resource))
	return v, address, nil
}

func signInFault(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return fault.Unavailable("one cannot sign in to the server: %s", brief(err.Error())).Named("mcp_sign_in_failed").
		Hint("ask whoever runs it; where its provider registers no clients by itself, set auth.CLIENT_ID")
}

// discover reads the server's metadata and that of its provider.
func discover(ctx context.Context, hc *http.Client, serverURL string, challenge, scopes []string) (grant, *oauthex.AuthServerMeta, error) {
	challenges, err := oauthex.ParseWWWAuthenticate(challenge)
	if err != nil {
		challenges = nil // the well-known addresses are left
	}
	resource := resourceOf(ctx, hc, serverURL, challenges)
	issuer := resource.AuthorizationServers[0]
	meta, err := auth.GetAuthServerMetadata(ctx, issuer, hc)
	if err != nil {
		return grant{}, nil, err
	}
	if meta == nil { // as servers did that are older than the metadata
		meta = &oauthex.AuthServerMeta{Issuer: issuer, AuthorizationEndpoint: issuer + "/authorize", TokenEndpoint: issuer + "/token", RegistrationEndpoint: issuer + "/register"}
	}
	if !webAddress(meta.AuthorizationEndpoint) || !webAddress(meta.TokenEndpoint) {
		return grant{}, nil, errors.New("its provider names no addresses for that")
	}
	if len(scopes) == 0 {
		for _, c := range challenges {
			if c.Scheme == "bearer" {
				scopes = append(scopes, strings.Fields(c.Params["scope"])...)
			}
		}
	}
	if len(scopes) == 0 {
		scopes = resource.ScopesSupported
	}
	scopes = slices.Clone(scopes[:min(len(scopes), maxScopes)])
	if slices.Contains(meta.ScopesSupported, "offline_access") && !slices.Contains(scopes, "offline_access") {
		scopes = append(scopes, "offline_access") // for a refresh token
	}
	return grant{Issuer: meta.Issuer, AuthURL: meta.AuthorizationEndpoint, TokenURL: meta.TokenEndpoint, Scopes: scopes, Resource: resource.Resource}, meta, nil
}

// webAddress reports whether a browser may be sent there: never to javascript:
// or a file.
func webAddress(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// resourceOf returns the server's metadata as a protected resource. Where it has
// none it is taken for its own provider, as the first version of the
// specification has it.
func resourceOf(ctx context.Context, hc *http.Client, serverURL string, challenges []oauthex.Challenge) *oauthex.ProtectedResourceMetadata {
	u, err := url.Parse(serverURL)
	if err != nil {
		return &oauthex.ProtectedResourceMetadata{Resource: serverURL, AuthorizationServers: []string{serverURL}}
	}
	root := url.URL{Scheme: u.Scheme, Host: u.Host}
	at := func(path string) string { r := root; r.Path = path; return r.String() }
	type place struct{ metadata, resource string }
	places := []place{
		{at("/.well-known/oauth-protected-resource/" + strings.TrimLeft(u.Path, "/")), serverURL},
		{at("/.well-known/oauth-protected-resource"), root.String()},
	}
	for _, c := range challenges {
		if named := c.Params["resource_metadata"]; webAddress(named) {
			places = append([]place{{named, serverURL}, {named, root.String()}}, places...)
		}
	}
	for _, p := range places {
		meta, err := oauthex.GetProtectedResourceMetadata(ctx, p.metadata, p.resource, hc)
		if err == nil && meta != nil && len(meta.AuthorizationServers) > 0 {
			return meta
		}
	}
	return &oauthex.ProtectedResourceMetadata{Resource: serverURL, AuthorizationServers: []string{root.String()}}
}

// register settles as whom Aloft asks the provider: as it was told, as in the
// sign-in before, or as a client that the provider makes now.
func register(ctx context.Context, hc *http.Client, g *grant, meta *oauthex.AuthServerMeta, own Client, before grant) error {
	methods := meta.TokenEndpointAuthMethodsSupported
	switch {
	case own.ID != "":
		g.ClientID, g.ClientSecret, g.Style = own.ID, own.Secret, int(styleOf(methods, ""))
		return nil
	case before.ClientID != "" && before.Issuer == g.Issuer && before.RedirectURL == g.RedirectURL && before.TokenURL == g.TokenURL:
		g.ClientID, g.ClientSecret, g.Style = before.ClientID, before.ClientSecret, before.Style
		return nil
	case meta.RegistrationEndpoint == "":
		return fault.Unavailable("its provider registers no clients by itself").Named("mcp_client_needed").
			Hint("register Aloft there with the redirect address %s, and give the server auth.CLIENT_ID", g.RedirectURL)
	}
	kind := "web"
	if u, err := url.Parse(g.RedirectURL); err == nil && (u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost" || u.Hostname() == "::1") {
		kind = "native"
	}
	made, err := oauthex.RegisterClient(ctx, meta.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{g.RedirectURL}, ClientName: "Aloft", ApplicationType: kind,
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, Scope: strings.Join(g.Scopes, " "),
		TokenEndpointAuthMethod: "none",
	}, hc)
	if err != nil {
		return err
	}
	if made.ClientID == "" || len(made.ClientID)+len(made.ClientSecret) > maxToken {
		return errors.New("its provider made no client that can be used")
	}
	g.ClientID, g.ClientSecret, g.Style = made.ClientID, made.ClientSecret, int(styleOf(methods, made.TokenEndpointAuthMethod))
	return nil
}

func styleOf(supported []string, settled string) oauth2.AuthStyle {
	switch {
	case settled == "client_secret_basic", settled == "" && len(supported) > 0 && !slices.Contains(supported, "client_secret_post") && slices.Contains(supported, "client_secret_basic"):
		return oauth2.AuthStyleInHeader
	default:
		return oauth2.AuthStyleInParams
	}
}

// end exchanges what the browser came back with. kept is the state that the very
// browser had kept.
func (v visit) end(ctx context.Context, hc *http.Client, state, kept, code, iss string) (grant, error) {
	switch {
	case v.State == "", !same(v.State, state), !same(v.State, kept):
		return grant{}, fault.Invalid("this sign-in was not begun in this browser").Named("visit_unknown").Hint("begin it again")
	case time.Now().After(v.Until):
		return grant{}, fault.Gone("this sign-in has taken too long").Named("visit_over").Hint("begin it again")
	case iss == "" && v.Iss, iss != "" && iss != v.Grant.Issuer:
		return grant{}, fault.Denied("another provider than the one asked has answered").Named("issuer_differs")
	case code == "" || len(code) > maxToken:
		return grant{}, fault.Denied("the provider let nobody in").Named("sign_in_refused").Hint("begin it again")
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, hc), tokenWithin)
	defer cancel()
	token, err := v.Grant.config().Exchange(ctx, code, oauth2.VerifierOption(v.Verifier), oauth2.SetAuthURLParam("resource", v.Grant.Resource))
	if err != nil {
		return grant{}, tokenFault(err)
	}
	return v.Grant.with(token)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// with returns the grant with a new token.
func (g grant) with(t *oauth2.Token) (grant, error) {
	if !strings.EqualFold(t.Type(), "bearer") {
		return g, tokenFault(fmt.Errorf("a token of type %q", brief(t.Type())))
	}
	if t.AccessToken == "" || len(t.AccessToken)+len(t.RefreshToken) > maxToken || strings.ContainsFunc(t.AccessToken, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return g, tokenFault(errors.New("no token that can be used"))
	}
	g.Access, g.Expires = t.AccessToken, t.Expiry.UTC()
	if t.RefreshToken != "" {
		g.Refresh = t.RefreshToken
	}
	return g, nil
}

// tokenFault tells why no token was had, without what the provider was sent.
func tokenFault(err error) error {
	why := err.Error()
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if why = r.ErrorCode + " " + r.ErrorDescription; strings.TrimSpace(why) == "" {
			why = fmt.Sprintf("it answers %d", r.Response.StatusCode)
		}
	} else if u, ok := errors.AsType[*url.Error](err); ok {
		why = u.Err.Error()
	}
	return fault.Unavailable("the provider gave no token: %s", brief(why)).Named("mcp_sign_in_failed").Hint("sign in again")
}

// stale reports whether the grant's token is to be renewed before it is used.
func (g grant) stale() bool {
	return g.Access == "" || !g.Expires.IsZero() && time.Now().After(g.Expires.Add(-refreshBefore))
}

// renew has the provider give another token.
func (g grant) renew(ctx context.Context, hc *http.Client) (grant, error) {
	if g.Refresh == "" {
		return g, fault.Denied("the sign-in is over").Named("mcp_sign_in_needed").Hint("sign in again")
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, hc), tokenWithin)
	defer cancel()
	token, err := g.config().TokenSource(ctx, &oauth2.Token{RefreshToken: g.Refresh}).Token()
	if err != nil {
		return g, tokenFault(err)
	}
	return g.with(token)
}

// over reports whether no renewing will help any more.
func over(err error) bool {
	return fault.Of(err).Code == "mcp_sign_in_needed" || strings.Contains(fault.Of(err).Message, "invalid_grant")
}

// signInKey names a person's sign-in at a server. One that a repository names
// has another than the very same where people have named it: a repository gets
// no use of what somebody signed in for elsewhere.
func signInKey(repository, serverURL, clientID string) string {
	b, _ := json.Marshal([]string{repository, serverURL, clientID}) // of strings: it never fails
	sum := sha256.Sum256(b)
	return "s-" + hex.EncodeToString(sum[:])
}
