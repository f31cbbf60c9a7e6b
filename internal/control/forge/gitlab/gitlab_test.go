package gitlab

import (
	"net/http"
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
)

var at = forgetest.At(New)

func TestGitLab(t *testing.T) {
	forgetest.Run(t, func(t *testing.T) forgetest.Host { return forgetest.NewGitLab(t).Host(t, at) })
	forgetest.RunServer(t, forgetest.NewGitLab, at)
}

func TestNoTextIsAnAction(t *testing.T) { forgetest.RunActions(t, forgetest.NewGitLab, at) }

func TestExamine(t *testing.T) {
	user := forgetest.Answer{Status: 200, Body: `{"id": 1, "username": "ada"}`}
	forgetest.RunExamine(t, forgetest.NewGitLab, at, map[string]forgetest.Examination{
		"Enough": {Answers: []forgetest.Answer{{Status: 200, Body: `{"scopes": ["read_user", "api"]}`}, user}, Want: forge.Grant{Login: "ada", Told: true}},
		"Reads":  {Answers: []forgetest.Answer{{Status: 200, Body: `{"scopes": ["read_api", "write_repository"]}`}}, Want: forge.Grant{Told: true, Lacks: []string{"api"}}},
		"OAuth":  {Answers: []forgetest.Answer{{Status: 404, Body: `{"message": "404 Not found"}`}, user}, Want: forge.Grant{Login: "ada"}},
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
