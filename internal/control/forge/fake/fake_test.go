package fake_test

import (
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/fake"
	"aloft/internal/control/forge/forgetest"
)

func TestFake(t *testing.T) {
	forgetest.Run(t, func(*testing.T) forgetest.Host {
		f := fake.New("forge.test")
		f.People = []string{"ada"}
		r := f.Add("acme/widget", "main")
		return forgetest.Host{
			Forge: f, Repo: r, Reviewer: "ada",
			Push: func(_ testing.TB, branch string) string { return f.Push(r, branch) },
			Check: func(_ testing.TB, commit, name string, s forge.CheckState) {
				f.SetCheck(r, commit, forge.Check{Name: name, State: s})
			},
			Say: func(_ testing.TB, number int, body string) { f.Say(r, number, "ada", body) },
		}
	})
}
