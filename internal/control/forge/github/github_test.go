package github

import (
	"net/http"
	"strings"
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
	"aloft/internal/fault"
)

var at = forgetest.At(New)

func TestGitHub(t *testing.T) {
	forgetest.Run(t, func(t *testing.T) forgetest.Host { return forgetest.NewGitHub(t).Host(t, at) })
	forgetest.RunServer(t, forgetest.NewGitHub, at)
}

func TestNoTextIsAnAction(t *testing.T) { forgetest.RunActions(t, forgetest.NewGitHub, at) }

func TestExamine(t *testing.T) {
	scopes := func(list string) map[string]string { return map[string]string{"X-OAuth-Scopes": list} }
	forgetest.RunExamine(t, forgetest.NewGitHub, at, map[string]forgetest.Examination{
		"Enough":      {Answers: []forgetest.Answer{{Status: 200, Header: scopes("repo, read:org"), Body: `{"login": "ada"}`}}, Want: forge.Grant{Login: "ada", Told: true}},
		"PublicOnly":  {Answers: []forgetest.Answer{{Status: 200, Header: scopes("public_repo"), Body: `{"login": "ada"}`}}, Want: forge.Grant{Login: "ada", Told: true, Lacks: []string{"repo"}}},
		"NoScopes":    {Answers: []forgetest.Answer{{Status: 200, Header: scopes(""), Body: `{"login": "ada"}`}}, Want: forge.Grant{Login: "ada", Told: true, Lacks: []string{"repo"}}},
		"FineGrained": {Answers: []forgetest.Answer{{Status: 200, Body: `{"login": "ada"}`}}, Want: forge.Grant{Login: "ada"}},
		"App":         {Answers: []forgetest.Answer{{Status: 403, Body: `{"message": "Resource not accessible by integration"}`}}},
	})
}

func FuzzAnswers(f *testing.F) {
	forgetest.FuzzAnswers(f, func(client *http.Client) forge.Forge {
		host, err := New(forge.Options{API: "https://forge.test", Tokens: forge.Token(forgetest.Token), Client: client})
		if err != nil {
			f.Fatal(err)
		}
		return host
	})
}

// GitHub reports failures of GraphQL queries with the status 200.
func TestGraphQLFailures(t *testing.T) {
	for kind, code := range map[string]string{
		"FORBIDDEN": forge.CodeDenied, "INSUFFICIENT_SCOPES": forge.CodeDenied, "RATE_LIMITED": forge.CodeRateLimited, "NOT_FOUND": forge.CodeNotFound, "": forge.CodeRefused,
	} {
		s := forgetest.NewGitHub(t)
		s.Next(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"data": null, "errors": [{"type": "` + kind + `", "message": "no ` + forgetest.Token + `"}]}`))
		})
		_, err := at(t, s, forgetest.Token).(forge.Reviewed).Threads(t.Context(), s.Repo, 1)
		if fault.Of(err).Code != code || strings.Contains(err.Error(), forgetest.Token) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestGraphQLAddress(t *testing.T) {
	for api, want := range map[string]string{
		"https://api.github.com": "https://api.github.com/graphql", "https://git.test/api/v3": "https://git.test/api/graphql",
		"https://git.test/api/v3/": "https://git.test/api/graphql", "https://api.acme.ghe.com": "https://api.acme.ghe.com/graphql",
	} {
		if got := graphQL(api); got != want {
			t.Errorf("%s: %s, want %s", api, got, want)
		}
	}
}
