package github

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
	"aloft/internal/fault"
)

// TestApp has an App create tokens on a server that knows its public key, and
// opens a pull request with such a token.
func TestApp(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := forgetest.NewGitHub(t)
	now := time.Now()
	a, err := NewApp(AppOptions{API: s.API, ID: "12345", Key: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	a.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }

	// proven replies to requests that contain the App's JWT.
	proven := func(status int, answer any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			token, err := jwt.ParseSigned(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), []jose.SignatureAlgorithm{jose.RS256})
			var c jwt.Claims
			if err == nil {
				err = token.Claims(&key.PublicKey, &c)
			}
			if err != nil || c.Issuer != "12345" || c.Expiry.Time().Sub(a.now()) > 10*time.Minute || c.IssuedAt.Time().After(a.now()) {
				t.Errorf("%s: %+v, %v", r.URL, c, err)
				status = http.StatusUnauthorized
			}
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(answer)
		}
	}
	made := func(until time.Duration) http.HandlerFunc {
		return proven(http.StatusCreated, map[string]any{"token": forgetest.Token, "expires_at": now.Add(until).UTC().Format(time.RFC3339), "permissions": map[string]string{"contents": "write"}})
	}

	s.Next(proven(http.StatusNotFound, map[string]any{"message": "Not Found"}))
	if _, err := a.Token(t.Context(), s.Repo); fault.Of(err).Code != forge.CodeNoToken || !strings.Contains(err.Error(), "install it") {
		t.Errorf("where it is not installed: %v", err)
	}
	s.Requests()
	s.Next(proven(http.StatusOK, map[string]any{"id": 77}))
	s.Next(made(time.Hour))
	var all sync.WaitGroup
	for range 4 { // all requests use one token
		all.Go(func() {
			if token, err := a.Token(t.Context(), s.Repo); err != nil || token != forgetest.Token {
				t.Errorf("token %q, %v", token, err)
			}
		})
	}
	all.Wait()
	if got := strings.Join(s.Requests(), ", "); got != "GET /repos/acme/widget/installation, POST /app/installations/77/access_tokens" {
		t.Errorf("asked for %s", got)
	}
	f, err := New(forge.Options{API: s.API, Tokens: a.Token})
	if err != nil {
		t.Fatal(err)
	}
	s.Fake.Push(s.Repo, "b")
	if _, err := f.Open(t.Context(), forge.NewPullRequest{Repo: s.Repo, Head: "b", Base: "main", Title: "By the App"}); err != nil {
		t.Error(err)
	}
	s.Requests()

	mu.Lock()
	now = now.Add(56 * time.Minute)
	mu.Unlock()
	s.Next(made(time.Hour))
	if _, err := a.Token(t.Context(), s.Repo); err != nil {
		t.Error(err)
	}
	if got := strings.Join(s.Requests(), ", "); got != "POST /app/installations/77/access_tokens" {
		t.Errorf("renewed by %s", got)
	}
}

// TestAppRepositories checks that an App lists the repositories of two owners'
// installations, and no repository of a suspended installation.
func TestAppRepositories(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := forgetest.NewGitHub(t)
	a, err := NewApp(AppOptions{API: s.API, ID: "12345", Key: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})})
	if err != nil {
		t.Fatal(err)
	}
	s.Fake.Add("acme/gadget", "main")
	s.Fake.Add("acme/gear", "main")
	answer := func(status int, v any) {
		s.Next(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer "+forgetest.Token {
				t.Errorf("%s is asked with the token of an installation", r.URL)
			}
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v)
		})
	}
	at := func(id int, login string, suspended any) map[string]any {
		return map[string]any{"id": id, "account": map[string]any{"login": login}, "suspended_at": suspended}
	}
	token := map[string]any{"token": forgetest.Token, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
	installed := []any{at(77, "acme", nil), at(78, "evil", "2026-01-02T03:04:05Z"), at(79, "team", nil)}
	pages := func(n int) {
		for range n {
			s.Next(nil) // the server's own response
		}
	}
	answer(http.StatusOK, installed)
	answer(http.StatusCreated, token)
	pages(2)
	answer(http.StatusNotFound, map[string]any{"message": "Not Found"}) // the App was uninstalled in the meantime
	all, err := a.Repositories(t.Context(), forge.Repo{Host: s.Repo.Host})
	if len(all) != 3 || fault.Of(err).Code != forge.CodeNotFound {
		t.Errorf("of all owners: %v, %v", all, err)
	}
	s.Requests()
	answer(http.StatusOK, installed)
	pages(2)
	if all, err = a.Repositories(t.Context(), forge.Repo{Host: s.Repo.Host, Path: "Acme"}); len(all) != 3 || err != nil {
		t.Errorf("of one: %v, %v", all, err)
	}
	if got := strings.Join(s.Requests(), ", "); got != "GET /app/installations, GET /installation/repositories, GET /installation/repositories" {
		t.Errorf("asked for %s", got)
	}
}

func TestAppWithoutAKey(t *testing.T) {
	for _, key := range []string{"", "x", "-----BEGIN RSA PRIVATE KEY-----\neA==\n-----END RSA PRIVATE KEY-----\n"} {
		if _, err := NewApp(AppOptions{ID: "1", Key: []byte(key)}); err == nil || key != "" && strings.Contains(err.Error(), "eA==") {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestAPIOfHosts(t *testing.T) {
	for host, want := range map[string]string{"": "https://api.github.com", "github.com": "https://api.github.com",
		"acme.ghe.com": "https://api.acme.ghe.com", "git.acme.test:8443": "https://git.acme.test:8443/api/v3"} {
		if got := api(forge.Options{Host: host}); got != want {
			t.Errorf("%q: %s, want %s", host, got, want)
		}
	}
}
