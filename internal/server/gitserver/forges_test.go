package gitserver

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"reflect"
	"testing"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
)

// Each host with a credential becomes a forge. A host of unknown kind is an
// error.
func TestForgeHosts(t *testing.T) {
	got, err := Config{Credentials: []Credential{
		{URL: "https://github.com/acme"}, {URL: "https://github.com/other"}, {URL: "https://git.example.com"},
		{URL: "http://127.0.0.1:3000/o", Forge: "gitea", Reviewers: map[string]string{"Ada@example.com": "ada"}}, {URL: "http://127.0.0.1:3000/p", Forge: "gitea", Reviewers: map[string]string{"bo@example.com": "bo"}}, {URL: "https://Code.example.com:443", Forge: "gitlab", API: "https://api.example.com/v4"},
		{URL: "https://gitlab.com", Forge: "none"},
	}}.Hosts()
	want := map[string]Host{
		"github.com":       {Kind: "github", At: "git.credentials[1]", Reviewers: map[string]string{}},
		"127.0.0.1:3000":   {Kind: "gitea", API: "http://127.0.0.1:3000/api/v1", At: "git.credentials[4]", Reviewers: map[string]string{"ada@example.com": "ada", "bo@example.com": "bo"}},
		"code.example.com": {Kind: "gitlab", API: "https://api.example.com/v4", At: "git.credentials[5]", Reviewers: map[string]string{}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Git has a token for a repository, and an App is configured for its host.
// Requests on behalf of the App must use the App's token.
func TestForgesOfApps(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	s := forgetest.NewGitHub(t)
	app := Credential{URL: s.URL, Forge: "github", API: s.API}
	app.App = App{ID: "12345", Key: string(pemKey)}
	only := Credential{URL: "http://git.example.com/acme/", Forge: "github", App: app.App}
	of, err := Config{Credentials: []Credential{{URL: s.URL + "/acme", Token: "the-token-of-git", Forge: "github", API: s.API}, app, only}}.AppForges()
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range []any{map[string]any{"id": 77}, map[string]any{"token": forgetest.Token, "expires_at": time.Now().Add(time.Hour)}} {
		s.Next(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(answer) })
	}
	f := of(s.Repo)
	if f == nil {
		t.Fatal("no App speaks of a repository of its host")
	}
	if main, err := f.DefaultBranch(t.Context(), s.Repo); err != nil || main != "main" {
		t.Errorf("by the App's token: %q, %v", main, err)
	}
	for path, want := range map[string]bool{"acme/widget": true, "acme2/widget": false, "other/widget": false} {
		if got := of(forge.Repo{Host: "git.example.com", Path: path}) != nil; got != want {
			t.Errorf("an App for %s: %v", path, got)
		}
	}
	if of(forge.Repo{Host: "git.example.org", Path: "acme/widget"}) != nil {
		t.Error("an App of another host")
	}
}
