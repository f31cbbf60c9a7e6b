package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
	"aloft/internal/control/gateway"
	"aloft/internal/control/machine/container"
)

// A GitHub App of the configuration makes the token of a pull request, and of git.
func TestGitHubAppOfTheConfiguration(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	github := forgetest.NewGitHub(t)
	dir := t.TempDir()
	text := fmt.Sprintf("git:\n  credentials:\n    - url: %s\n      forge: github\n      api: %s\n      app: {id: '12345', key_file: app.pem}\n", github.URL, github.API)
	for name, data := range map[string][]byte{"aloft.yaml": []byte(text),
		"app.pem": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := loadConfig(filepath.Join(dir, "aloft.yaml"), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if c.secrets()["git.credentials[0].app.key"] == "" {
		t.Error("the key is no secret")
	}
	credentials, err := gitCredentials(c.Git)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Dir: t.TempDir(), Credentials: credentials, Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	forges, err := newForges(c.Git, g)
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []any{map[string]any{"id": 77}, map[string]any{"token": forgetest.Token, "expires_at": time.Now().Add(time.Hour)}} {
		github.Next(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	f, r, err := forges.Of(github.Repo)
	if err != nil {
		t.Fatal(err)
	}
	github.Fake.Push(r, "b")
	p, err := f.Open(t.Context(), forge.NewPullRequest{Repo: r, Head: "b", Base: "main", Title: "By the App"})
	if err != nil || p.Number != 1 {
		t.Errorf("opened %+v, %v", p, err)
	}
	if token, err := g.Token(t.Context(), github.URL+"/acme/widget"); err != nil || token != forgetest.Token {
		t.Errorf("git has the token %q, %v", token, err)
	}
}

// The doctor asks each host about its token.
func TestProbeForges(t *testing.T) {
	answers := func(s *forgetest.Server, statuses ...int) *forgetest.Server {
		for _, status := range statuses {
			s.Next(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-OAuth-Scopes", "repo")
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"login": "ada"}`))
			})
		}
		return s
	}
	good, poor, bad := answers(forgetest.NewGitHub(t), 200), answers(forgetest.NewGitea(t), 403, 403, 403), answers(forgetest.NewGitLab(t), 401)
	down := answers(forgetest.NewGitea(t), 502)
	c := gitConfig{}
	for s, kind := range map[*forgetest.Server]string{good: "github", poor: "gitea", bad: "gitlab", down: "gitea"} {
		c.Credentials = append(c.Credentials, credentialConfig{URL: s.URL + "/acme", API: s.API, Forge: kind, Token: forgetest.Token})
	}
	c.Credentials = append(c.Credentials, credentialConfig{URL: "https://git.example.com", Token: "t"}, credentialConfig{URL: "https://other.example.com", Token: "t", Forge: noForge})
	checks, err := probeForges(t.Context(), c)
	if err != nil || len(checks) != len(c.Credentials)-1 {
		t.Fatalf("%+v, %v", checks, err)
	}
	for _, want := range []struct{ at, detail, fix string }{
		{good.URL, "for ada", ""},
		{poor.URL, "may not push", "write:repository and write:issue"},
		{bad.URL, "does not accept", "make a new one"},
		{down.URL, "answers 502", "tried again"},
		{"https://git.example.com", "the kind of forge is unknown", "forge: github"},
	} {
		i := slices.IndexFunc(checks, func(c container.Check) bool { return strings.HasPrefix(c.Name, "forge "+bareURL(want.at)) })
		if i < 0 {
			t.Errorf("nothing of %s in %+v", want.at, checks)
			continue
		}
		if got := checks[i]; got.OK != (want.fix == "") || got.Required || !strings.Contains(got.Detail, want.detail) || !strings.Contains(got.Fix, want.fix) || strings.Contains(got.Detail+got.Fix, forgetest.Token) {
			t.Errorf("%s: %+v", want.at, got)
		}
	}
}
