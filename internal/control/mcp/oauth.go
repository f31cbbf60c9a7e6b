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

// Limits of sign-ins.
const (
	visitWithin     = 10 * time.Minute // time for the user to finish at the provider
	discoverWithin  = 20 * time.Second
	tokenWithin     = 20 * time.Second
	maxMetadata     = 1 << 20 // bytes of one response
	maxToken        = 16 << 10
	maxScopes       = 50
	maxMetadataURLs = 4           // metadata addresses tried per server
	refreshBefore   = time.Minute // minimum remaining lifetime; a token with less is renewed
	maxWords        = 500         // maximum runes of an untrusted error in a message
)

// CallbackPath is the redirect path for providers.
const CallbackPath = "/v1/mcp-sign-in/callback"

// A Client is Aloft's registration with an OAuth provider, configured by hand.
type Client struct {
	ID, Secret string
	Scopes     []string
}

// grant is the result of a user's sign-in to a server. It is stored encrypted.
type grant struct {
	Issuer       string    `json:"issuer"`
	AuthURL      string    `json:"authUrl"`
	TokenURL     string    `json:"tokenUrl"`
	ClientID     string    `json:"clientId"`
	ClientSecret string    `json:"clientSecret,omitempty"`
	Style        int       `json:"style"` // an oauth2.AuthStyle
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

// visit is a sign-in in progress. It is stored encrypted, so that another
// server, or this one after a restart, can finish it.
type visit struct {
	Grant    grant     `json:"grant"`
	Key      string    `json:"key"` // key of the sign-in
	State    string    `json:"state"`
	Verifier string    `json:"verifier"`
	Iss      bool      `json:"iss,omitempty"` // the provider includes its issuer when it redirects back
	Until    time.Time `json:"until"`
	Back     ReturnTo  `json:"back"`
	// Foreign is the network policy of the agent whose repository configures the
	// server; nil for a server configured by people.
	Foreign *agent.Egress `json:"foreign,omitempty"`
}

// ReturnTo says where a sign-in was started.
type ReturnTo struct {
	// Home is the address under which the browser uses Aloft, without a trailing
	// slash; "" means the public URL. It matters because a cookie for 127.0.0.1
	// is not sent to localhost.
	Home       string `json:"home,omitempty"`
	Server     string `json:"server"` // name of the server
	AgentID    string `json:"agentId,omitempty"`
	ApprovalID string `json:"approvalId,omitempty"` // the approval that the sign-in resolves
}

// signInRequest says how to begin a sign-in.
type signInRequest struct {
	serverURL string
	challenge []string // WWW-Authenticate headers of the server's 401 response
	redirect  string   // where the provider sends the browser afterwards
	prefix    string   // prefix of the state
	client    Client   // client that a person has configured; its ID is "" if there is none
	more      []string // scopes to request in addition to those that the server asks for
	before    grant    // grant of an earlier sign-in, whose client is reused if possible
}

// begin finds out how to sign in to the server. It returns a visit, and the
// address of the provider for the browser.
func begin(ctx context.Context, hc *http.Client, r signInRequest) (visit, string, error) {
	ctx, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	g, meta, err := discover(ctx, hc, r.serverURL, r.challenge, r.client.Scopes)
	if err != nil {
		return visit{}, "", signInFault(err)
	}
	for _, scope := range r.more {
		if !slices.Contains(g.Scopes, scope) && len(g.Scopes) < maxScopes {
			g.Scopes = append(g.Scopes, scope)
		}
	}
	g.RedirectURL = r.redirect
	if err := register(ctx, hc, &g, meta, r.client, r.before); err != nil {
		return visit{}, "", signInFault(err)
	}
	v := visit{Grant: g, State: r.prefix + oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(), Iss: meta.AuthorizationResponseIssParameterSupported, Until: time.Now().Add(visitWithin).UTC()}
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
	return fault.Unavailable("cannot sign in to the server: %s", mcp.Clean(err.Error(), maxWords)).Named(CodeNoToken).
		Hint("ask the operator of the MCP server; if its provider does not support client registration, set auth.CLIENT_ID")
}

// discover reads the metadata of the server and of its OAuth provider.
func discover(ctx context.Context, hc *http.Client, serverURL string, challenge, scopes []string) (grant, *oauthex.AuthServerMeta, error) {
	places, asked := challenged(serverURL, challenge)
	resource := resourceOf(ctx, hc, serverURL, places)
	issuer := resource.AuthorizationServers[0]
	meta, err := auth.GetAuthServerMetadata(ctx, issuer, hc)
	if err != nil {
		return grant{}, nil, err
	}
	if meta == nil { // servers older than the metadata specification
		meta = &oauthex.AuthServerMeta{Issuer: issuer, AuthorizationEndpoint: issuer + "/authorize", TokenEndpoint: issuer + "/token", RegistrationEndpoint: issuer + "/register"}
	}
	if !webAddress(meta.AuthorizationEndpoint) || !webAddress(meta.TokenEndpoint) {
		return grant{}, nil, errors.New("its provider has no sign-in addresses")
	}
	if len(scopes) == 0 {
		scopes = asked
	}
	if len(scopes) == 0 {
		scopes = resource.ScopesSupported
	}
	scopes = slices.Clone(scopes[:min(len(scopes), maxScopes)])
	if slices.Contains(meta.ScopesSupported, "offline_access") && !slices.Contains(scopes, "offline_access") {
		scopes = append(scopes, "offline_access") // required for a refresh token
	}
	return grant{Issuer: meta.Issuer, AuthURL: meta.AuthorizationEndpoint, TokenURL: meta.TokenEndpoint, Scopes: scopes, Resource: resource.Resource}, meta, nil
}

// webAddress reports whether it is safe to send a browser to an address. It
// rejects javascript: and file URLs, for example.
func webAddress(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// metadataURL is a candidate address of a resource's metadata.
type metadataURL struct{ metadata, resource string }

// challenged parses a server's WWW-Authenticate headers. It returns the
// addresses at which the server's metadata may be, best first, and the
// requested scopes.
func challenged(serverURL string, challenge []string) (places []metadataURL, scopes []string) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, nil
	}
	root := url.URL{Scheme: u.Scheme, Host: u.Host}
	challenges, err := oauthex.ParseWWWAuthenticate(challenge)
	if err != nil {
		challenges = nil // try only the well-known addresses
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

// resourceOf returns the server's protected-resource metadata. If it has none,
// the server counts as its own provider, as in the first version of the
// specification.
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

// register determines the client to use with the provider: the configured one,
// that of the previous sign-in, or a newly registered one.
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
		return fault.Unavailable("its provider does not support client registration").Named("mcp_client_needed").
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
		return errors.New("its provider returned an unusable client")
	}
	g.ClientID, g.ClientSecret, g.Style = made.ClientID, made.ClientSecret, int(styleOf(methods, made.TokenEndpointAuthMethod))
	return nil
}

// registerError returns why registration failed. It repeats only the error
// fields meant for it, since the rest of the response may contain a client
// secret.
func registerError(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if refusal, ok := errors.AsType[*oauthex.ClientRegistrationError](err); ok {
		return fmt.Errorf("its provider refused to register a client: %s", refusal.ErrorCode)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("its provider refused to register a client: %w", u.Err)
	}
	return errors.New("its provider refused to register a client, or sent an invalid response")
}

func styleOf(supported []string, settled string) oauth2.AuthStyle {
	switch {
	case settled == "client_secret_basic", settled == "" && len(supported) > 0 && !slices.Contains(supported, "client_secret_post") && slices.Contains(supported, "client_secret_basic"):
		return oauth2.AuthStyleInHeader
	default:
		return oauth2.AuthStyleInParams
	}
}

// errClient means that the provider does not recognize Aloft's client.
var errClient = fault.Unavailable("the provider does not recognize Aloft's client").Named("mcp_client_unknown").
	Hint("start again, and Aloft will register again; if auth.CLIENT_ID is set, check it")

// end exchanges the code from the browser's redirect for a token. kept is the
// state in that browser's cookie.
func (v visit) end(ctx context.Context, hc *http.Client, state, kept, code, iss string) (grant, error) {
	switch {
	case v.State == "", !constantTimeEqual(v.State, state), !constantTimeEqual(v.State, kept):
		return grant{}, fault.Invalid("this sign-in was not started in this browser").Named("visit_unknown").Hint("begin it again")
	case time.Now().After(v.Until):
		return grant{}, fault.Gone("this sign-in has taken too long").Named("visit_over").Hint("begin it again")
	case iss == "" && v.Iss, iss != "" && iss != v.Grant.Issuer:
		return grant{}, fault.Denied("a different provider answered").Named("issuer_differs")
	case code == "" || len(code) > maxToken:
		return grant{}, fault.Denied("the provider refused the sign-in").Named("sign_in_refused").Hint("begin it again")
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
	return v.Grant.withToken(token)
}

func constantTimeEqual(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// withToken returns the grant with a new token.
func (g grant) withToken(t *oauth2.Token) (grant, error) {
	if !strings.EqualFold(t.Type(), "bearer") {
		return g, tokenFault(errors.New("its token has an unknown type"))
	}
	if t.AccessToken == "" || len(t.AccessToken)+len(t.RefreshToken) > maxToken || strings.ContainsFunc(t.AccessToken, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return g, tokenFault(errors.New("its token is unusable"))
	}
	g.Access, g.Expires = t.AccessToken, t.Expiry.UTC()
	if t.RefreshToken != "" {
		g.Refresh = t.RefreshToken
	}
	return g, nil
}

// oauthCode returns the code of an OAuth error response, or "".
func oauthCode(err error) string {
	if r, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return r.ErrorCode
	}
	return ""
}

// unknownClient reports whether the provider no longer recognizes the client.
// Many providers delete dynamically registered clients.
func unknownClient(code string) bool {
	return code == "invalid_client" || code == "unauthorized_client"
}

// tokenFault returns why no token was issued, and redacts all values that were
// sent.
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
	return fault.Unavailable("the provider returned no token: %s", mcp.Clean(hide.String(why), maxWords)).Named(CodeNoToken).Hint("sign in again")
}

// stale reports whether the grant's token must be renewed before use.
func (g grant) stale() bool {
	return g.Access == "" || !g.Expires.IsZero() && time.Now().After(g.Expires.Add(-refreshBefore))
}

// renew refreshes the token. If the provider says that the refresh token is
// invalid, the tokens are dropped.
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
	// An oauth2.TokenSource would omit the resource parameter, which MCP requires
	// in every token request.
	token, err := c.Exchange(ctx, "", oauth2.SetAuthURLParam("grant_type", "refresh_token"), oauth2.SetAuthURLParam("refresh_token", g.Refresh), oauth2.SetAuthURLParam("resource", g.Resource))
	switch code := oauthCode(err); {
	case code == "invalid_grant":
		return over, nil
	case unknownClient(code):
		over.ClientID, over.ClientSecret = "", "" // the next sign-in registers another client
		return over, nil
	case err != nil:
		return g, tokenFault(err, g.ClientSecret, g.Refresh)
	}
	return g.withToken(token)
}

// signInKey returns the storage key of a user's sign-in to a server. A server
// configured by a repository has a different key from the same server
// configured by people, so that a repository cannot use a sign-in made for
// another configuration.
func signInKey(repository, serverURL, clientID string) string {
	b, _ := json.Marshal([]string{repository, serverURL, clientID}) // encoding strings cannot fail
	sum := sha256.Sum256(b)
	return "s-" + hex.EncodeToString(sum[:])
}
