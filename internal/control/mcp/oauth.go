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
	"strconv"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/redact"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// Bounds of signing in.
const (
	visitWithin     = 10 * time.Minute // a person at the provider's pages
	discoverWithin  = 20 * time.Second
	tokenWithin     = 20 * time.Second
	maxMetadata     = 1 << 20 // bytes of one reply
	maxToken        = 16 << 10
	maxScopes       = 50
	maxMetadataURLs = 4           // of metadata that a server names
	refreshBefore   = time.Minute // of a token's end
	maxWords        = 500         // runes of a foreign error that are repeated
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
	// Foreign is the way out of the agent whose repository names the server; nil
	// where people do.
	Foreign *agent.Egress `json:"foreign,omitempty"`
}

// Back is where a sign-in came from.
type Back struct {
	// Home is where the browser has Aloft, without a final slash; "" is the public
	// URL. A cookie of 127.0.0.1 is not sent to localhost.
	Home       string `json:"home,omitempty"`
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
	return fault.Unavailable("one cannot sign in to the server: %s", mcp.Clean(err.Error(), maxWords)).Named(CodeNoToken).
		Hint("ask whoever runs it; where its provider registers no clients by itself, set auth.CLIENT_ID")
}

// discover reads the server's metadata and that of its provider.
func discover(ctx context.Context, hc *http.Client, serverURL string, challenge, scopes []string) (grant, *oauthex.AuthServerMeta, error) {
	places, asked := challenged(serverURL, challenge)
	resource := resourceOf(ctx, hc, serverURL, places)
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
		scopes = asked
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

// metadataURL is where the metadata of a resource may be.
type metadataURL struct{ metadata, resource string }

// challenged is what the server's words say when it refuses somebody: where its
// metadata may be, the first first, and the scopes that it asks for.
func challenged(serverURL string, challenge []string) (places []metadataURL, scopes []string) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, nil
	}
	root := url.URL{Scheme: u.Scheme, Host: u.Host}
	challenges, err := oauthex.ParseWWWAuthenticate(challenge)
	if err != nil {
		challenges = nil // the well-known addresses are left
	}
	for _, c := range challenges {
		if named := c.Params["resource_metadata"]; webAddress(named) {
			places = append(places, metadataURL{named, serverURL}, metadataURL{named, root.String()})
		}
		if c.Scheme == "bearer" {
			scopes = append(scopes, strings.Fields(c.Params["scope"])...)
		}
	}
	known := root.JoinPath("/.well-known/oauth-protected-resource")
	places = append(places[:min(len(places), maxMetadataURLs)], metadataURL{known.JoinPath(u.Path).String(), serverURL}, metadataURL{known.String(), root.String()})
	return places, scopes[:min(len(scopes), maxScopes)]
}

// resourceOf returns the server's metadata as a protected resource. Where it has
// none it is taken for its own provider, as the first version of the
// specification has it.
func resourceOf(ctx context.Context, hc *http.Client, serverURL string, places []metadataURL) *oauthex.ProtectedResourceMetadata {
	for _, p := range places {
		meta, err := oauthex.GetProtectedResourceMetadata(ctx, p.metadata, p.resource, hc)
		if err == nil && meta != nil && len(meta.AuthorizationServers) > 0 {
			return meta
		}
	}
	issuer := serverURL
	if u, err := url.Parse(serverURL); err == nil {
		issuer = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	}
	return &oauthex.ProtectedResourceMetadata{Resource: serverURL, AuthorizationServers: []string{issuer}}
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
		return registerError(err)
	}
	if made.ClientID == "" || len(made.ClientID)+len(made.ClientSecret) > maxToken {
		return errors.New("its provider made no client that can be used")
	}
	g.ClientID, g.ClientSecret, g.Style = made.ClientID, made.ClientSecret, int(styleOf(methods, made.TokenEndpointAuthMethod))
	return nil
}

// registerError tells why no client was made. What the provider answered is not
// repeated but for the words that are meant for it: a client's secret may stand in
// the rest.
func registerError(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if said, ok := errors.AsType[*oauthex.ClientRegistrationError](err); ok {
		return fmt.Errorf("its provider registers no client: %s", said.ErrorCode)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("its provider registers no client: %w", u.Err)
	}
	return errors.New("its provider registers no client, or answers what OAuth does not know")
}

func styleOf(supported []string, settled string) oauth2.AuthStyle {
	switch {
	case settled == "client_secret_basic", settled == "" && len(supported) > 0 && !slices.Contains(supported, "client_secret_post") && slices.Contains(supported, "client_secret_basic"):
		return oauth2.AuthStyleInHeader
	default:
		return oauth2.AuthStyleInParams
	}
}

// errClient is of a provider that does not know Aloft as what it has asked.
var errClient = fault.Unavailable("the provider does not know Aloft as the client that has asked").Named("mcp_client_unknown").
	Hint("begin again, and Aloft registers anew; where auth.CLIENT_ID is set, check it")

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
		if unknownClient(oauthCode(err)) {
			return grant{}, errClient
		}
		return grant{}, tokenFault(err, v.Grant.ClientSecret, code, v.Verifier)
	}
	return v.Grant.with(token)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// with returns the grant with a new token.
func (g grant) with(t *oauth2.Token) (grant, error) {
	if !strings.EqualFold(t.Type(), "bearer") {
		return g, tokenFault(errors.New("its token is of no type that is known"))
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

// oauthCode is the code of a provider's refusal, "" where it is none.
func oauthCode(err error) string {
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return r.ErrorCode
	}
	return ""
}

// unknownClient reports whether the provider knows Aloft no more: many forget
// clients that have registered themselves.
func unknownClient(code string) bool {
	return code == "invalid_client" || code == "unauthorized_client"
}

// tokenFault tells why no token was had, without what the provider was sent.
func tokenFault(err error, sent ...string) error {
	why := err.Error()
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if why = r.ErrorCode + " " + r.ErrorDescription; strings.TrimSpace(why) == "" {
			why = fmt.Sprintf("it answers %d", r.Response.StatusCode)
		}
	} else if u, ok := errors.AsType[*url.Error](err); ok {
		why = u.Err.Error()
	}
	values := map[string]string{}
	for i, value := range sent {
		values[strconv.Itoa(i)] = value
	}
	hide := redact.New(values)
	return fault.Unavailable("the provider gave no token: %s", mcp.Clean(hide.String(why), maxWords)).Named(CodeNoToken).Hint("sign in again")
}

// stale reports whether the grant's token is to be renewed before it is used.
func (g grant) stale() bool {
	return g.Access == "" || !g.Expires.IsZero() && time.Now().After(g.Expires.Add(-refreshBefore))
}

// renew has the provider give another token, or forgets those that there are where
// the provider says that none will come of them any more.
func (g grant) renew(ctx context.Context, hc *http.Client) (grant, error) {
	over := g
	over.Access, over.Refresh = "", ""
	if g.Refresh == "" {
		return over, nil
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, hc), tokenWithin)
	defer cancel()
	c := g.config()
	c.RedirectURL = ""
	// A token source would leave out the resource, which MCP wants of each request for a token.
	token, err := c.Exchange(ctx, "", oauth2.SetAuthURLParam("grant_type", "refresh_token"), oauth2.SetAuthURLParam("refresh_token", g.Refresh), oauth2.SetAuthURLParam("resource", g.Resource))
	switch code := oauthCode(err); {
	case code == "invalid_grant":
		return over, nil
	case unknownClient(code):
		over.ClientID, over.ClientSecret = "", "" // another is registered with the next sign-in
		return over, nil
	case err != nil:
		return g, tokenFault(err, g.ClientSecret, g.Refresh)
	}
	return g.with(token)
}

// signInKey names a person's sign-in at a server. One that a repository names
// has another than the very same where people have named it: a repository gets
// no use of what somebody signed in for elsewhere.
func signInKey(repository, serverURL, clientID string) string {
	b, _ := json.Marshal([]string{repository, serverURL, clientID}) // of strings: it never fails
	sum := sha256.Sum256(b)
	return "s-" + hex.EncodeToString(sum[:])
}
