package server

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
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
	"aloft/internal/server/gitserver"
)

// The configured GitHub App creates the tokens for pull requests and for git.
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
	c, err := LoadConfig(filepath.Join(dir, "aloft.yaml"), os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if c.SecretValues()["git.credentials[0].app.key"] == "" {
		t.Error("the key is no secret")
	}
	credentials, err := c.Git.GatewayCredentials()
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Dir: t.TempDir(), Credentials: credentials, Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	forges, err := c.Git.Forges(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []any{map[string]any{"id": 77}, map[string]any{"token": forgetest.Token, "expires_at": time.Now().Add(time.Hour)}} {
		github.Next(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	f, r, err := forges.Find(github.Repo)
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

// The doctor command checks each host's token.
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
	c := gitserver.Config{}
	for s, kind := range map[*forgetest.Server]string{good: "github", poor: "gitea", bad: "gitlab", down: "gitea"} {
		c.Credentials = append(c.Credentials, gitserver.Credential{URL: s.URL + "/acme", API: s.API, Forge: kind, Token: forgetest.Token})
	}
	c.Credentials = append(c.Credentials, gitserver.Credential{URL: "https://git.example.com", Token: "t"}, gitserver.Credential{URL: "https://other.example.com", Token: "t", Forge: gitserver.NoForge})
	checks, err := ProbeForges(t.Context(), c)
	if err != nil || len(checks) != len(c.Credentials)-1 {
		t.Fatalf("%+v, %v", checks, err)
	}
	for _, want := range []struct{ at, detail, fix string }{
		{good.URL, "for ada", ""},
		{poor.URL, "may not push", "write:repository and write:issue"},
		{bad.URL, "does not accept", "create a new one"},
		{down.URL, "status 502", "retried automatically"},
		{"https://git.example.com", "the kind of forge is unknown", "forge: github"},
	} {
		i := slices.IndexFunc(checks, func(c container.Check) bool { return strings.HasPrefix(c.Name, "forge "+gitserver.BareURL(want.at)) })
		if i < 0 {
			t.Errorf("nothing of %s in %+v", want.at, checks)
			continue
		}
		if got := checks[i]; got.OK != (want.fix == "") || got.Required || !strings.Contains(got.Detail, want.detail) || !strings.Contains(got.Fix, want.fix) || strings.Contains(got.Detail+got.Fix, forgetest.Token) {
			t.Errorf("%s: %+v", want.at, got)
		}
	}
}

// The catalog lists the repositories that the configured credentials can
// access. If a host is down, the server logs that and still lists the other
// hosts' repositories.
func TestCatalogOfTheConfiguration(t *testing.T) {
	gitea, gitlab, down := forgetest.NewGitea(t), forgetest.NewGitLab(t), forgetest.NewGitHub(t)
	for n := range 5 {
		gitea.Fake.Add(fmt.Sprintf("team/service-%d", n), "main")
	}
	gitlab.Fake.Add("acme/sub/gadget", "main")
	down.Next(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of order "+forgetest.Token, http.StatusServiceUnavailable)
	})
	text := "git:\n  credentials:\n"
	for _, cred := range [][2]string{
		{gitea.URL + "/team", "gitea"}, {gitlab.URL, "gitlab"}, {gitlab.URL + "/acme/widget.git", "gitlab"}, {down.URL, "github"}, {"https://git.example.com", "none"},
	} {
		text += fmt.Sprintf("    - {url: '%s', forge: %s, token: '%s'}\n", cred[0], cred[1], forgetest.Token)
	}
	path := filepath.Join(t.TempDir(), "aloft.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadConfig(path, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	catalog, err := c.Git.Catalog(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{gitlab.URL + "/acme/sub/gadget", gitlab.URL + "/acme/widget"}
	for n := range 5 {
		want = append(want, fmt.Sprintf("%s/team/service-%d", gitea.URL, n))
	}
	slices.Sort(want)
	for range 2 {
		if got := catalog.Repositories(t.Context()); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if text := log.String(); !strings.Contains(text, "url="+down.URL) || !strings.Contains(text, forge.CodeUnreachable) || strings.Contains(text, forgetest.Token) {
		t.Errorf("logged: %s", text)
	}
	if asked := gitea.Requests(); len(asked) != 4 { // four pages, requested once
		t.Errorf("asked Gitea for %q", asked)
	}
}
