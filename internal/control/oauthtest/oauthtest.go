// Package oauthtest is a real OAuth and OpenID Connect provider for tests,
// based on zitadel's library, with MCP servers behind it. It adds what MCP
// requires and the library lacks: client registration (RFC 7591), metadata (RFC
// 8414), resource indicators (RFC 8707), issuer identification (RFC 9207), and
// a consent page. It is as strict as a real provider.
package oauthtest

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Password is the password of both users: ada, whose address is verified, and
// eve, whose is not.
const Password = "verysecure"

// Provider is a provider that runs until the test ends. Its methods are safe
// for concurrent use.
type Provider struct {
	URL string // of the issuer; with a host name, so that browsers treat it as another site than 127.0.0.1

	t         testing.TB
	op        http.Handler
	records   *records
	mu        sync.Mutex
	resources []string
	made      int           // number of clients registered
	sent      []string      // secrets that the provider has sent to clients
	lasts     time.Duration // lifetime of tokens that the provider reports to clients; 0 means the true lifetime
}

// New starts a provider.
func New(t testing.TB) *Provider {
	t.Helper()
	users := map[string]storage.User{}
	for name, verified := range map[string]bool{"ada": true, "eve": false} {
		users[name] = storage.User{ID: name, Username: name, Password: Password, FirstName: strings.ToUpper(name), Email: name + "@example.com", EmailVerified: verified}
	}
	data, err := json.Marshal(users)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "users.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	people, err := storage.StoreFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{t: t}
	p.records = &records{Storage: storage.NewStorageWithClients(people, map[string]*storage.Client{}), provider: p, clients: map[string]client{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	p.op = exampleop.SetupServer(p.URL, p.records, slog.New(slog.DiscardHandler), false)
	return p
}

// Client adds a pre-registered client.
func (p *Provider) Client(id, secret, redirect string) {
	p.records.add(id, secret, storage.WebClient(id, secret, redirect))
}

// Registered returns how many clients have registered themselves.
func (p *Provider) Registered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// TokensLast sets the lifetime of tokens that the provider reports to clients.
func (p *Provider) TokensLast(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lasts = d
}

// Sent returns the secrets that the provider has sent to clients: tokens, codes
// and verifiers.
func (p *Provider) Sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

func (p *Provider) note(secrets ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range secrets {
		if s != "" {
			p.sent = append(p.sent, s)
		}
	}
}

// Forget ends all sign-ins.
func (p *Provider) Forget() {
	for _, id := range p.records.ids() {
		for _, person := range []string{"ada", "eve"} {
			if err := p.records.TerminateSession(context.Background(), person, id); err != nil {
				p.t.Error(err)
			}
		}
	}
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/register":
		p.register(w, r)
	case "/.well-known/oauth-authorization-server":
		p.metadata(w)
	case "/auth":
		if p.refuses(w, r.URL.Query()) {
			return
		}
		p.op.ServeHTTP(w, r)
	case "/login/username":
		if r.Method == http.MethodGet {
			p.consent(w, r)
			return
		}
		p.op.ServeHTTP(w, r)
	case "/denied":
		p.denied(w, r)
	case "/forget": // for tests in a browser
		p.Forget()
	case "/oauth/token":
		p.token(w, r)
	default:
		p.op.ServeHTTP(w, r)
	}
}

// refuses rejects a request that names none of the configured resources.
func (p *Provider) refuses(w http.ResponseWriter, q url.Values) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.resources) == 0 || slices.Contains(p.resources, q.Get("resource")) {
		return false
	}
	reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_target", "error_description": "no such resource"})
	return true
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if p.refuses(w, r.PostForm) {
		return
	}
	p.note(r.PostForm.Get("code"), r.PostForm.Get("code_verifier"), r.PostForm.Get("refresh_token"))
	said := httptest.NewRecorder()
	p.op.ServeHTTP(said, r)
	var tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	_ = json.Unmarshal(said.Body.Bytes(), &tokens) // an error reply has no tokens
	p.note(tokens.Access, tokens.Refresh)
	for name, values := range said.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(said.Code)
	_, _ = said.Body.WriteTo(w)
}

func (p *Provider) metadata(w http.ResponseWriter) {
	said := httptest.NewRecorder()
	p.op.ServeHTTP(said, httptest.NewRequest(http.MethodGet, p.URL+"/.well-known/openid-configuration", nil))
	var meta map[string]any
	if err := json.Unmarshal(said.Body.Bytes(), &meta); err != nil {
		p.t.Errorf("metadata: %v: %s", err, said.Body)
	}
	meta["registration_endpoint"] = p.URL + "/register"
	reply(w, http.StatusOK, meta)
}

// register registers a public client, which uses PKCE.
func (p *Provider) register(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Redirects) != 1 || asked.Method != "none" {
		reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_client_metadata"})
		return
	}
	p.mu.Lock()
	p.made++
	id := fmt.Sprintf("registered-%d", p.made)
	p.mu.Unlock()
	p.records.add(id, "", storage.NativeClient(id, asked.Redirects...))
	reply(w, http.StatusCreated, map[string]any{"client_id": id, "token_endpoint_auth_method": "none", "redirect_uris": asked.Redirects})
}

// consent serves the page on which ada allows or denies a client.
func (p *Provider) consent(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("authRequestID")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, `<!doctype html><html lang="en"><title>Provider</title><h1>Let Aloft in?</h1>
<form method="post" action="/login/username"><input type="hidden" name="id" value="%[1]s"><input type="hidden" name="username" value="ada"><input type="hidden" name="password" value="%[2]s"><button>Allow</button></form>
<form action="/denied"><input type="hidden" name="id" value="%[1]s"><button>Deny</button></form>`, html.EscapeString(id), Password)
}

func (p *Provider) denied(w http.ResponseWriter, r *http.Request) {
	asked, err := p.records.AuthRequestByID(r.Context(), r.URL.Query().Get("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	http.Redirect(w, r, asked.GetRedirectURI()+"?"+url.Values{"error": {"access_denied"}, "state": {asked.GetState()}}.Encode(), http.StatusFound)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}

// Guard serves inner to users with a valid token, and returns the URL of the
// resource.
func (p *Provider) Guard(inner http.Handler) string {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	p.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	resource, about := server.URL+"/mcp", "/.well-known/oauth-protected-resource/mcp"
	p.mu.Lock()
	p.resources = append(p.resources, resource)
	p.mu.Unlock()
	mux.Handle(about, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: resource, AuthorizationServers: []string{p.URL}, ScopesSupported: []string{"openid"},
	}))
	mux.Handle("/mcp", auth.RequireBearerToken(p.knows, &auth.RequireBearerTokenOptions{ResourceMetadataURL: server.URL + about})(inner))
	return resource
}

// knows asks the provider to which user a token belongs.
func (p *Provider) knows(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/userinfo", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{Expiration: time.Now().Add(time.Hour)}, nil
}

// Visit signs the person in with the provider as a browser would, and returns
// the parameters with which the provider redirects to callback.
func Visit(t testing.TB, address, person, callback string) url.Values {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var back url.Values
	browser := http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), callback) {
			back = r.URL.Query()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	form := page.Request.URL
	if text, err := io.ReadAll(page.Body); err != nil || page.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", form, page.Status, err, text)
	}
	done, err := browser.PostForm(form.Scheme+"://"+form.Host+"/login/username",
		url.Values{"id": {form.Query().Get("authRequestID")}, "username": {person}, "password": {Password}})
	if err != nil {
		t.Fatal(err)
	}
	defer done.Body.Close()
	if back == nil {
		text, _ := io.ReadAll(done.Body)
		t.Fatalf("the provider sends nobody back: %s: %s", done.Status, text)
	}
	return back
}

// records is the library's storage with its own clients. The library's own
// clients are in a map that all providers share.
type records struct {
	*storage.Storage
	provider *Provider
	mu       sync.Mutex
	clients  map[string]client
}

type client struct {
	*storage.Client
	secret string
}

func (r *records) add(id, secret string, c *storage.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[id] = client{c, secret}
}

func (r *records) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id := range r.clients {
		ids = append(ids, id)
	}
	return ids
}

func (r *records) find(id string) (client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.clients[id]
	if !ok {
		return c, fmt.Errorf("there is no client %s", id)
	}
	return c, nil
}

// GetClientByClientID implements op.Storage.
func (r *records) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	c, err := r.find(id)
	if err != nil {
		return nil, err
	}
	return storage.RedirectGlobsClient(c.Client), nil
}

// AuthorizeClientIDSecret implements op.Storage.
func (r *records) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	c, err := r.find(id)
	if err == nil && c.secret != secret {
		err = fmt.Errorf("the secret of %s is another", id)
	}
	return err
}

// CreateAccessAndRefreshTokens implements op.Storage.
func (r *records) CreateAccessAndRefreshTokens(ctx context.Context, request op.TokenRequest, current string) (access, refresh string, until time.Time, err error) {
	access, refresh, until, err = r.Storage.CreateAccessAndRefreshTokens(ctx, request, current)
	r.provider.mu.Lock()
	defer r.provider.mu.Unlock()
	if r.provider.lasts != 0 {
		until = time.Now().Add(r.provider.lasts)
	}
	return access, refresh, until, err
}
