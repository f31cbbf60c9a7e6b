package mcp

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/outbound"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/policy"
)

// answers maps paths to a server's handlers.
type answers map[string]http.HandlerFunc

// say returns a handler that responds with JSON. In the JSON, the server's
// address replaces SELF.
func say(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(strings.ReplaceAll(text, "SELF", "http://"+r.Host)))
	}
}

const (
	metadataPath = "/.well-known/oauth-authorization-server"
	metadataText = `{"issuer":"SELF","authorization_endpoint":"SELF/a","token_endpoint":"SELF/t","registration_endpoint":"SELF/r","code_challenge_methods_supported":["S256"]}`
	tokenText    = `{"access_token":"access-token-2026","token_type":"Bearer","refresh_token":"refresh-token-2026","expires_in":1}`
)

// provided starts an MCP server that is its own OAuth provider. The handlers in
// others replace some of its responses.
func provided(t *testing.T, others answers) mcp.Server {
	t.Helper()
	all := answers{
		"/mcp": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://`+r.Host+`/pr"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"/pr":        say(200, `{"resource":"SELF/mcp","authorization_servers":["SELF"]}`),
		metadataPath: say(200, metadataText),
		"/r":         say(201, `{"client_id":"made"}`),
		"/t":         say(200, tokenText),
	}
	at := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := others[r.URL.Path]
		if page == nil {
			page = all[r.URL.Path]
		}
		if page == nil {
			page = http.NotFound
		}
		page(w, r)
	}))
	return remote(at + "/mcp")
}

// goThrough signs ada in and renews the token, so that Aloft requests every
// address that the server and its provider name.
func goThrough(t *testing.T, s *Servers, server mcp.Server) error {
	t.Helper()
	_, state, err := s.BeginSignIn(t.Context(), nil, server, ada, ReturnTo{})
	if err != nil {
		return err
	}
	if _, _, err := s.EndSignIn(t.Context(), state, state, "code-of-the-visit-2026", ""); err != nil {
		return err
	}
	_, err = s.Test(t.Context(), server, ada)
	return err
}

// TestReachOfEveryHop checks that no address named by a server or its provider
// makes Aloft connect to a blocked address. In turn, each hop of a sign-in
// names such an address. If the address is allowed, Aloft must connect, which
// proves that the test case reaches the hop. A redirect to another server is
// the exception: Aloft never follows it.
func TestReachOfEveryHop(t *testing.T) {
	var reached atomic.Int32
	far := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		http.NotFound(w, r)
	}))
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = far.Listener.Close()
	far.Listener = l
	far.Start()
	t.Cleanup(far.Close)
	at := "http://" + l.Addr().String()
	away := http.RedirectHandler(at+"/x", http.StatusTemporaryRedirect).ServeHTTP
	once := func(first, then http.HandlerFunc) http.HandlerFunc {
		var n atomic.Int32
		return func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 1 {
				first(w, r)
				return
			}
			then(w, r)
		}
	}
	for name, hop := range map[string]struct {
		answers  func() answers
		redirect bool
	}{
		"Nothing": {func() answers { return nil }, true},
		"Server":  {func() answers { return answers{"/mcp": away} }, true},
		"ResourceMetadata": {func() answers {
			return answers{"/mcp": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+at+`/pr"`)
				w.WriteHeader(http.StatusUnauthorized)
			}}
		}, false},
		"ResourceRedirect": {func() answers { return answers{"/pr": away} }, true},
		"Provider": {func() answers {
			return answers{"/pr": say(200, `{"resource":"SELF/mcp","authorization_servers":["`+at+`"]}`)}
		}, false},
		"ProviderRedirect": {func() answers { return answers{metadataPath: away} }, true},
		"Registration": {func() answers {
			return answers{metadataPath: say(200, strings.Replace(metadataText, "SELF/r", at+"/r", 1))}
		}, false},
		"RegistrationRedirect": {func() answers { return answers{"/r": away} }, true},
		"Token": {func() answers {
			return answers{metadataPath: say(200, strings.Replace(metadataText, "SELF/t", at+"/t", 1))}
		}, false},
		"TokenRedirect":   {func() answers { return answers{"/t": away} }, true},
		"RenewalRedirect": {func() answers { return answers{"/t": once(say(200, tokenText), away)} }, true},
		"Stream": {func() answers {
			return answers{"/mcp": func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", at)
			}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := goThrough(t, newServers(t), provided(t, hop.answers()))
			if n := reached.Swap(0); n != 0 {
				t.Errorf("a blocked address was asked %d times: %v", n, err)
			}
			// The server requires another token, so the error of a complete sign-in has
			// the code CodeSignIn. Only the case "Nothing" must complete the sign-in;
			// the other cases named here may.
			if whole := fault.Of(err).Code == CodeSignIn; whole != (name == "Nothing") && name != "RenewalRedirect" && !strings.HasPrefix(name, "Resource") {
				t.Errorf("it ends with %v", err)
			}
			_ = goThrough(t, newServers(t, "127.0.0.2"), provided(t, hop.answers()))
			if n := reached.Swap(0); (n == 0) != hop.redirect {
				t.Errorf("where the address is open it was asked %d times", n)
			}
		})
	}
}

// TestSignInOfARepositorysServer checks that Aloft contacts a repository's
// server under the network policy of the agent's machine, even when the browser
// returns from the sign-in. It must not contact addresses that are open only to
// Aloft.
func TestSignInOfARepositorysServer(t *testing.T) {
	s := newServers(t)
	server := provided(t, nil)
	server.Source = mcp.Project
	user := User{ID: ada.ID, Repository: "https://example.com/r"}
	_, state, err := s.BeginSignIn(t.Context(), &agent.Egress{}, server, user, ReturnTo{})
	if err != nil {
		t.Fatal(err)
	}
	closed, err := outbound.New(policy.Network{})
	if err != nil {
		t.Fatal(err)
	}
	s.Foreign = func(agent.Egress) (*outbound.Client, error) { return closed, nil }
	if _, _, err := s.EndSignIn(t.Context(), state, state, "code", ""); err == nil || !strings.Contains(err.Error(), "must not contact") {
		t.Errorf("it ends with %v", err)
	}
	s.Foreign = func(agent.Egress) (*outbound.Client, error) { return nil, nil }
	if _, _, err := s.BeginSignIn(t.Context(), &agent.Egress{}, server, user, ReturnTo{}); !fault.Is(err, fault.KindDenied) {
		t.Errorf("without a network: %v", err)
	}
}

// TestErrorsTellNothingThatWasSent checks that no error contains a secret that
// a server echoes.
func TestErrorsTellNothingThatWasSent(t *testing.T) {
	const key, secret, code = "key-of-the-server-2026", "secret-of-the-client-2026", "code-of-the-visit-2026"
	again := func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		id, password, _ := r.BasicAuth()
		text, _ := json.Marshal(fmt.Sprint(r.Form, r.Header, id, password, "\x1b[31m\u202e"))
		say(400, `{"error":"server_error","error_description":`+string(text)+`}`)(w, r)
	}
	rpc := func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		text, _ := json.Marshal(fmt.Sprint(r.Header, "\x1b[31m\u202e"))
		say(200, `{"jsonrpc":"2.0","id":`+string(asked.ID)+`,"error":{"code":-32000,"message":`+string(text)+`}}`)(w, r)
	}
	var renewing atomic.Bool
	s := newServers(t)
	for name, others := range map[string]answers{
		"Server":       {"/mcp": rpc},
		"Registration": {"/r": say(201, `{"client_id":"x","client_secret":"`+secret+`",`)},
		"Refused":      {"/r": say(500, `{"client_secret":"`+secret+`"}`)},
		"Exchange":     {"/t": again},
		"Renewal": {"/t": func(w http.ResponseWriter, r *http.Request) {
			if renewing.Swap(true) {
				again(w, r)
				return
			}
			say(200, tokenText)(w, r)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := provided(t, others)
			server.Headers = map[string]string{"X-Key": key}
			if name != "Registration" && name != "Refused" {
				server.Auth = &mcp.Auth{ClientID: "aloft", ClientSecret: secret}
			}
			err := goThrough(t, s, server)
			f := fault.Of(err)
			if err == nil || f.Kind == fault.KindInternal {
				t.Fatalf("it ends with %v", err)
			}
			said := fmt.Sprintf("%v %+v %s %s", err, f, f.Message, f.Advice)
			for _, hidden := range []string{key, secret, code, "access-token-2026", "refresh-token-2026", "\x1b", "\u202e"} {
				if strings.Contains(said, hidden) {
					t.Errorf("it says %q: %s", hidden, said)
				}
			}
		})
	}
}

// TestClientIsForgotten checks that if the provider has forgotten Aloft's
// client registration, as many do, Aloft registers again at the next sign-in.
func TestClientIsForgotten(t *testing.T) {
	s := newServers(t)
	var made atomic.Int32
	forgets := map[string]bool{}
	server := provided(t, answers{
		"/r": func(w http.ResponseWriter, r *http.Request) {
			say(201, fmt.Sprintf(`{"client_id":"c%d"}`, made.Add(1)))(w, r)
		},
		"/t": func(w http.ResponseWriter, r *http.Request) {
			if forgets[r.PostFormValue("client_id")] {
				say(401, `{"error":"invalid_client"}`)(w, r)
				return
			}
			say(200, tokenText)(w, r)
		},
	})
	if err := goThrough(t, s, server); fault.Of(err).Code != CodeSignIn || made.Load() != 1 {
		t.Fatalf("%v, %d clients", err, made.Load())
	}
	forgets["c1"] = true
	if err := goThrough(t, s, server); fault.Of(err).Code != "mcp_client_unknown" {
		t.Errorf("as who is forgotten: %v", err)
	}
	if err := goThrough(t, s, server); fault.Of(err).Code != CodeSignIn || made.Load() != 2 {
		t.Errorf("%v, %d clients", err, made.Load())
	}
	forgets["c2"] = true
	if _, err := s.Test(t.Context(), server, ada); fault.Of(err).Code != CodeSignIn {
		t.Errorf("a token that nobody renews: %v", err)
	}
	if in, err := s.SignIn(t.Context(), server, ada); in != SignInOver || err != nil {
		t.Errorf("the sign-in is %q, %v", in, err)
	}
	if err := goThrough(t, s, server); fault.Of(err).Code != CodeSignIn || made.Load() != 3 {
		t.Errorf("%v, %d clients", err, made.Load())
	}
}

// FuzzServer checks that results are limited whatever a server replies.
func FuzzServer(f *testing.F) {
	for _, said := range []string{
		`{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`, `{"tools":[null,{"name":"Shell"},{"name":"Shell"}],"nextCursor":"x"}`,
		`{"tools":[{"name":"a__b","description":"\u202e\u001b[2J","inputSchema":[]}]}`, `{"tools":7}`, `[`, ``, `null`, `{"tools":[{"name":1}]}`,
	} {
		f.Add([]byte(said))
	}
	s := newServers(f)
	f.Fuzz(func(t *testing.T, said []byte) {
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var asked struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.NewDecoder(r.Body).Decode(&asked)
			switch asked.Method {
			case "initialize":
				say(200, `{"jsonrpc":"2.0","id":`+string(asked.ID)+`,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`)(w, r)
			case "tools/list":
				say(200, `{"jsonrpc":"2.0","id":`+string(asked.ID)+`,"result":`+string(said)+`}`)(w, r)
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		}))
		defer at.Close()
		l, err := s.Test(t.Context(), remote(at.URL), User{})
		if err != nil && fault.Of(err).Kind == fault.KindInternal {
			t.Fatal(err)
		}
		if text := mcp.Tell([]mcp.Listing{l}); len(l.Tools) > mcp.MaxTools || strings.ContainsAny(text, "\x1b\u202e") {
			t.Fatalf("%d tools: %q", len(l.Tools), text)
		}
	})
}

// FuzzChallenge checks that a server's challenge yields only web addresses.
func FuzzChallenge(f *testing.F) {
	for _, said := range []string{`Bearer resource_metadata="https://a.test/x", scope="a b"`, `Bearer resource_metadata="javascript:alert(1)"`, `Basic x, Bearer a=`, `"`, `Bearer resource_metadata="file:///etc/passwd"`} {
		f.Add(said)
	}
	f.Fuzz(func(t *testing.T, said string) {
		all, scopes := challenged("https://mcp.example.com/mcp", []string{said})
		for _, p := range all {
			if !webAddress(p.metadata) {
				t.Fatalf("%q leads to %q", said, p.metadata)
			}
		}
		if len(scopes) > maxScopes {
			t.Fatalf("%d scopes", len(scopes))
		}
	})
}
