package mcp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aloft/internal/control/oauthtest"
	"aloft/internal/fault"
	"aloft/internal/mcp"
)

// visitAs signs ada in with the provider and returns the parameters with which
// the browser returns.
func visitAs(t *testing.T, address string) url.Values {
	t.Helper()
	return oauthtest.Visit(t, address, "ada", home+CallbackPath)
}

var ada = User{ID: 7}

func signIn(t *testing.T, s *Servers, server mcp.Server, user User) {
	t.Helper()
	address, state, err := s.BeginSignIn(t.Context(), nil, server, user, ReturnTo{Server: server.Name})
	if err != nil {
		t.Fatal(err)
	}
	if asked, err := url.Parse(address); err != nil || asked.Query().Get("code_challenge_method") != "S256" || asked.Query().Get("resource") != server.URL {
		t.Fatalf("the browser is sent to %s", address)
	}
	back := visitAs(t, address)
	who, _, err := s.EndSignIn(t.Context(), back.Get("state"), state, back.Get("code"), back.Get("iss"))
	if err != nil || who != user.ID {
		t.Fatalf("%d has signed in, %v", who, err)
	}
	if _, _, err := s.EndSignIn(t.Context(), back.Get("state"), state, back.Get("code"), ""); fault.Of(err).Code != "visit_unknown" {
		t.Errorf("a sign-in ends twice: %v", err)
	}
}

func TestSignIn(t *testing.T) {
	s := newServers(t)
	var calls atomic.Int32
	p := oauthtest.New(t)
	server := remote(p.Guard(streamable(tickets(&calls))))
	wantSignIn := func(user User) {
		t.Helper()
		if _, err := s.Test(t.Context(), server, user); fault.Of(err).Code != CodeSignIn {
			t.Errorf("%+v is let in: %v", user, err)
		}
	}
	wantSignIn(ada)
	signIn(t, s, server, ada)
	if l, err := s.Test(t.Context(), server, ada); err != nil || len(l.Tools) != 1 {
		t.Fatalf("signed in: %+v, %v", l, err)
	}
	wantSignIn(User{ID: 8})
	wantSignIn(User{ID: 7, Repository: "https://github.com/evil/repo"}) // configures the same server again
	// The token is renewed before it expires, and the new one is stored.
	key := s.signInKey(server, ada)
	g, err := s.grant(t.Context(), ada.ID, key)
	if err != nil || g.Refresh == "" {
		t.Fatalf("no token to renew by, %v", err)
	}
	old := g.Access
	g.Expires = time.Now().Add(refreshBefore / 2)
	if err := s.keepGrant(t.Context(), ada.ID, key, g); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Test(t.Context(), server, ada); err != nil {
		t.Fatal(err)
	}
	if g, err = s.grant(t.Context(), ada.ID, key); err != nil || g.Access == old {
		t.Errorf("the token is not renewed: %v", err)
	}
	// Aloft deletes a refresh token that the provider rejects.
	g.Refresh, g.Expires = "made up", time.Now()
	if err := s.keepGrant(t.Context(), ada.ID, key, g); err != nil {
		t.Fatal(err)
	}
	wantSignIn(ada)
	signIn(t, s, server, ada)
	if n := p.Registered(); n != 1 {
		t.Errorf("%d clients were registered", n)
	}
	if err := s.SignOut(t.Context(), server, ada); err != nil {
		t.Fatal(err)
	}
	wantSignIn(ada)
}

// TestSignInAsAClient checks that Aloft does not register if a client id is
// configured.
func TestSignInAsAClient(t *testing.T) {
	s := newServers(t)
	var calls atomic.Int32
	p := oauthtest.New(t)
	server := remote(p.Guard(streamable(tickets(&calls))))
	p.Client("aloft", "client-secret-2026", home+CallbackPath)
	server.Auth = &mcp.Auth{ClientID: "aloft", ClientSecret: "client-secret-2026", Scopes: []string{"openid", "profile"}}
	signIn(t, s, server, ada)
	if l, err := s.Test(t.Context(), server, ada); err != nil || len(l.Tools) != 1 || p.Registered() != 0 {
		t.Errorf("%+v, %v, %d registered", l, err, p.Registered())
	}
}

// TestSignInForged checks that a sign-in fails unless browser, state, code and
// user all match when the browser returns.
func TestSignInForged(t *testing.T) {
	s := newServers(t)
	var calls atomic.Int32
	p := oauthtest.New(t)
	server := remote(p.Guard(streamable(tickets(&calls))))
	begin := func(user User) (url.Values, string) {
		t.Helper()
		address, state, err := s.BeginSignIn(t.Context(), nil, server, user, ReturnTo{})
		if err != nil {
			t.Fatal(err)
		}
		return visitAs(t, address), state
	}
	end := func(state, kept, code, iss, want string) {
		t.Helper()
		if _, _, err := s.EndSignIn(t.Context(), state, kept, code, iss); fault.Of(err).Code != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	back, state := begin(ada)
	end(state, "another browser's", back.Get("code"), "", "visit_unknown")
	end("8."+strings.TrimPrefix(state, "7."), "8."+strings.TrimPrefix(state, "7."), back.Get("code"), "", "visit_unknown")
	end("", "", back.Get("code"), "", "visit_unknown")
	end(state, state, back.Get("code"), "https://evil.example.com", "issuer_differs")
	_, state = begin(ada)
	end(state, state, "made up", "", "mcp_sign_in_failed")
	theirs, _ := begin(User{ID: 8})
	_, state = begin(ada)
	end(state, state, theirs.Get("code"), "", "mcp_sign_in_failed")
	if in, err := s.SignIn(t.Context(), server, ada); in != NotSignedIn || err != nil {
		t.Errorf("ada is signed in, %v", err)
	}
}

// TestSignInElsewhere checks that a server cannot send users to a forged
// sign-in page.
func TestSignInElsewhere(t *testing.T) {
	s := newServers(t)
	for name, meta := range map[string]string{
		"Script":   `{"issuer":"%ISSUER%","authorization_endpoint":"javascript:alert(1)","token_endpoint":"%ISSUER%/t","code_challenge_methods_supported":["S256"],"registration_endpoint":"%ISSUER%/r"}`,
		"Metadata": `{"issuer":"%ISSUER%","authorization_endpoint":"https://example.com/a","token_endpoint":"http://169.254.169.254/t","code_challenge_methods_supported":["S256"],"registration_endpoint":"%ISSUER%/r"}`,
		"NoPKCE":   `{"issuer":"%ISSUER%","authorization_endpoint":"https://example.com/a","token_endpoint":"https://example.com/t","registration_endpoint":"%ISSUER%/r"}`,
		"Another":  `{"issuer":"https://example.com","authorization_endpoint":"https://example.com/a","token_endpoint":"https://example.com/t","code_challenge_methods_supported":["S256"]}`,
		"NoJSON":   `{`,
	} {
		t.Run(name, func(t *testing.T) {
			var at string
			at = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/.well-known/oauth-authorization-server":
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, strings.ReplaceAll(meta, "%ISSUER%", at))
				case "/r":
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusCreated)
					_, _ = io.WriteString(w, `{"client_id":"x"}`)
				default:
					w.WriteHeader(http.StatusUnauthorized)
				}
			}))
			address, _, err := s.BeginSignIn(t.Context(), nil, remote(at+"/mcp"), ada, ReturnTo{})
			if err == nil {
				t.Errorf("the browser is sent to %s", address)
			}
			t.Log(err)
		})
	}
}

// TestKeptIsSealed checks that sign-ins and servers are stored encrypted.
func TestKeptIsSealed(t *testing.T) {
	s := newServers(t)
	server := remote("https://mcp.example.com/mcp")
	server.Headers = map[string]string{"Authorization": "Bearer token-of-the-team-2026"}
	if _, err := s.Add(t.Context(), 1, true, server); err != nil {
		t.Fatal(err)
	}
	all, err := s.List(t.Context(), 2)
	if err != nil || len(all) != 1 || !all[0].Team() || all[0].Headers["Authorization"] == "" {
		t.Fatalf("%v, %v", all, err)
	}
	if _, err := s.Add(t.Context(), 1, true, remote("https://elsewhere.example.com/mcp")); fault.Of(err).Code != "name_taken" {
		t.Errorf("a second of the name: %v", err)
	}
	if _, err := s.Find(t.Context(), 2, all[0].ID); err != nil {
		t.Error(err)
	}
	if err := s.Remove(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(t.Context(), 2, all[0].ID); !fault.Is(err, fault.KindNotFound) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestCalls checks that a call is not repeated if the server may have executed
// it.
func TestCalls(t *testing.T) {
	s := newServers(t)
	var calls, posts atomic.Int32
	var mode atomic.Value
	mode.Store("")
	inner := streamable(tickets(&calls))
	at := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			if strings.Contains(string(body), "tools/call") {
				posts.Add(1)
				switch mode.Load() {
				case "dies":
					inner.ServeHTTP(httptest.NewRecorder(), r)
					panic(http.ErrAbortHandler)
				case "forgets":
					mode.Store("")
					http.Error(w, "no such session", http.StatusNotFound)
					return
				}
			}
		}
		inner.ServeHTTP(w, r)
	}))
	p := s.Party(1, "", nil)
	defer p.Close()
	server := remote(at)
	call := func() (string, error) {
		t.Helper()
		r, err := p.Call(t.Context(), server, "show", json.RawMessage(`{"id":"42"}`))
		return r.Tool().Text, err
	}
	if l := p.List(t.Context(), server); l.State != mcp.Ready || len(l.Tools) != 1 || !strings.Contains(string(l.Tools[0].Schema), "of the ticket") {
		t.Fatalf("%+v", l)
	}
	if text, err := call(); err != nil || text != "ticket 42" {
		t.Fatalf("%q, %v", text, err)
	}
	mode.Store("forgets")
	if text, err := call(); err != nil || text != "ticket 42" || calls.Load() != 2 {
		t.Errorf("after the server has forgotten: %q, %v, %d calls", text, err, calls.Load())
	}
	mode.Store("dies")
	before := posts.Load()
	_, err := call()
	if _, ok := errors.AsType[*MayHaveRun](err); !ok || posts.Load() != before+1 {
		t.Errorf("a call without an answer: %v, sent %d times", err, posts.Load()-before)
	}
	mode.Store("")
	if text, err := call(); err != nil || text != "ticket 42" {
		t.Errorf("the next call: %q, %v", text, err)
	}
	_, err = p.Call(t.Context(), server, "nothing", nil)
	if _, ok := errors.AsType[*MayHaveRun](err); ok || err == nil {
		t.Errorf("a tool that is not there: %v", err)
	}
	if all, err := p.Resources(t.Context(), server); err != nil || len(all) != 1 || all[0].URI != "notes://all" {
		t.Errorf("%+v, %v", all, err)
	}
	if c, err := p.Read(t.Context(), server, "notes://all"); err != nil || len(c) != 1 || c[0].Text != "all is well" {
		t.Errorf("%+v, %v", c, err)
	}
	server.Tools = []string{"list*"}
	if _, err := p.Call(t.Context(), server, "show", nil); !fault.Is(err, fault.KindDenied) {
		t.Errorf("a tool that is not allowed: %v", err)
	}
	server.Source = mcp.Project
	if l := p.List(t.Context(), server); l.State != mcp.Failed {
		t.Errorf("a repository's server is spoken to where its machine has no network: %+v", l)
	}
}
