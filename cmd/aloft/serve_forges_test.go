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
	"testing"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
	"aloft/internal/control/gateway"
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
