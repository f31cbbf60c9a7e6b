package gitea

import (
	"net/http"
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
)

var at = forgetest.At(New)

func TestGitea(t *testing.T) {
	forgetest.Run(t, func(t *testing.T) forgetest.Host { return forgetest.NewGitea(t).Host(t, at) })
	forgetest.RunServer(t, forgetest.NewGitea, at)
}

func TestNoTextIsAnAction(t *testing.T) { forgetest.RunActions(t, forgetest.NewGitea, at) }

func TestExamine(t *testing.T) {
	lacks := func(scope string) forgetest.Answer {
		return forgetest.Answer{Status: 403, Body: `{"message": "token does not have at least one of required scope(s), required=[` + scope + `]"}`}
	}
	nothing := forgetest.Answer{Status: 422, Body: `{"message": "[Head]: Required"}`}
	missing := forgetest.Answer{Status: 404, Body: `{"message": "GetUserByName"}`}
	user := forgetest.Answer{Status: 200, Body: `{"login": "ada"}`}
	forgetest.RunExamine(t, forgetest.NewGitea, at, map[string]forgetest.Examination{
		"Enough":         {Answers: []forgetest.Answer{nothing, missing, user}, Want: forge.Grant{Login: "ada", Told: true}},
		"Hidden":         {Answers: []forgetest.Answer{missing, missing, lacks("read:user")}, Want: forge.Grant{Told: true}},
		"Reads":          {Answers: []forgetest.Answer{lacks("write:repository"), lacks("write:issue"), user}, Want: forge.Grant{Login: "ada", Told: true, Lacks: []string{"write:repository", "write:issue"}}},
		"RepositoryOnly": {Answers: []forgetest.Answer{missing, lacks("write:issue"), user}, Want: forge.Grant{Login: "ada", Told: true, Lacks: []string{"write:issue"}}},
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
