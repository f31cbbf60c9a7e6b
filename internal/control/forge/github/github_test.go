package github

import (
	"net/http"
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
)

var at = forgetest.At(New)

func TestGitHub(t *testing.T) {
	forgetest.Run(t, func(t *testing.T) forgetest.Host { return forgetest.NewGitHub(t).Host(t, at) })
	forgetest.RunServer(t, forgetest.NewGitHub, at)
}

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
