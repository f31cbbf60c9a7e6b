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
		f.People, f.Writers = []string{"ada"}, []string{"ada"}
		r := f.Add("acme/widget", "main")
		return forgetest.Host{
			Forge: f, Repo: r, Reviewer: "ada",
			Push: func(_ testing.TB, branch string) string { return f.Push(r, branch) },
			Check: func(_ testing.TB, commit, name string, s forge.CheckState) {
				f.SetCheck(r, commit, forge.Check{Name: name, State: s, LogID: commit + " " + name})
			},
			SayOn: func(_ testing.TB, number int, path string, line int, body string) {
				f.SayOn(r, number, "ada", path, line, body)
			},
			SubmitReview: func(_ testing.TB, number int, verdict forge.ReviewVerdict, body string) {
				f.SubmitReview(r, number, "ada", verdict, body)
			},
			SetLog:     func(_ testing.TB, commit, name, log string) { f.SetLog(r, commit+" "+name, log) },
			Say:        func(_ testing.TB, number int, body string) { f.Say(r, number, "ada", body) },
			OpenIssue:  func(_ testing.TB, title, body string) int { return f.OpenIssue(r, "ada", title, body) },
			SayAtIssue: func(_ testing.TB, number int, body string) { f.SayAtIssue(r, number, "ada", body) },
		}
	})
}
