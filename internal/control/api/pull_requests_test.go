package api

import (
	"context"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/api/pulls"
	"aloft/internal/control/pull"
	"aloft/internal/fault"
)

// forgeNotes is a forge that counts the pull requests that are opened.
type forgeNotes struct {
	pulls.Pulls
	opened int
}

func (f *forgeNotes) ByHand(_ context.Context, _ int64, agentID, _ string, w pull.Options) (agent.PullRequest, error) {
	f.opened++
	return agent.PullRequest{RepoURL: "https://git.example.com/o/r", Branch: "b", URL: "https://git.example.com/o/r/pull/1", Title: w.Title, Number: int64(f.opened)}, nil
}

// A repeated request for a pull request calls the forge once.
func TestRepeatedPullRequest(t *testing.T) {
	h, forge := newHouse(t), &forgeNotes{}
	h.api.pulls.Pulls = forge
	id, _ := h.begin()
	path := "/v1/agents/" + id + "/pull-requests"
	first := h.want(h.call("POST", path, `{"title":"Mend it"}`, "Idempotency-Key", "k"), 201)
	if again := h.want(h.call("POST", path, `{"title":"Mend it"}`, "Idempotency-Key", "k"), 201); string(again.body) != string(first.body) || forge.opened != 1 {
		t.Errorf("%d were asked for: %s, then %s", forge.opened, first.body, again.body)
	}
	h.want(h.call("POST", path, `{"title":"Another"}`, "Idempotency-Key", "k"), 409)
	if h.want(h.call("POST", path, `{"title":"Another"}`), 201); forge.opened != 2 {
		t.Error("without a key it is asked for as often as it is wished")
	}
}

func (f *forgeNotes) Can(string) error { return nil }

func (f *forgeNotes) CanAsApp(repoURL string) error {
	if strings.Contains(repoURL, "/app/") {
		return nil
	}
	return fault.Invalid("no GitHub App is configured for it").Named("integration_not_connected")
}

// The server opens pull requests as a GitHub App if one is configured for each
// of the agent's repositories, and the agent shows this. Otherwise the server
// rejects the agent.
func TestOpenAsGitHubApp(t *testing.T) {
	h := newHouse(t)
	h.api.pulls.Pulls = &forgeNotes{}
	v1 := func(repos string) string {
		return `{"prompt":{"text":"x"},"autoCreatePR":true,"openAsCursorGithubApp":true,"repos":[` + repos + `]}`
	}
	const app, none = `{"url":"https://git.example.com/app/r"}`, `{"url":"https://git.example.com/none/r"}`
	for body, want := range map[string]string{v1(none): "integration_not_connected", v1(app + "," + none): "integration_not_connected", v1(""): "repository_required"} {
		a := h.want(h.call("POST", "/v1/agents", body), 400)
		if a.text(t, "error.code") != want || !strings.Contains(a.text(t, "error.message"), "openAsCursorGithubApp") {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	made := h.want(h.call("POST", "/v1/agents", v1(app)), 201)
	old := func(owner string) string {
		return `{"prompt":{"text":"x"},"source":{"repository":"https://git.example.com/` + owner + `/r"},"target":{"autoCreatePr":true,"openAsCursorGithubApp":true}}`
	}
	if a := h.want(h.call("POST", "/v0/agents", old("none")), 400); a.text(t, "error") != "integration_not_connected" || !strings.Contains(a.text(t, "message"), "target.openAsCursorGithubApp") {
		t.Errorf("/v0: %s", a.body)
	}
	for _, id := range []string{made.text(t, "agent.id"), h.want(h.call("POST", "/v0/agents", old("app")), 201).text(t, "id")} {
		if a := h.want(h.call("GET", "/v1/agents/"+id, ""), 200); a.get(t, "openAsCursorGithubApp") != true {
			t.Errorf("the agent: %s", a.body)
		}
		if a, err := h.store.Agent(t.Context(), id); err != nil || !a.Pull.AsApp {
			t.Errorf("journaled: %+v, %v", a.Pull, err)
		}
	}
}
