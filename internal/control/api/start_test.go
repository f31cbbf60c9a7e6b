package api

import (
	"slices"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/model"
	"aloft/internal/fault"
)

// start starts an agent on behalf of a user, as the server's own components do.
func (h *house) start(userID int64, q agents.Request) error {
	owner, err := agents.ActFor(h.t.Context(), h.store, userID)
	if err != nil {
		return err
	}
	q.By, q.RunID = owner, agent.NewRunID()
	_, err = h.api.agents.Creator().Create(h.t.Context(), q)
	return err
}

// A request that the server makes on behalf of a user obeys the rules for that
// user's requests, and takes effect once per id.
func TestStartForAUser(t *testing.T) {
	h := newHouse(t)
	h.api.pulls.Pulls = &forgeNotes{}
	const ben, viewer = 2, 3
	branch := "dev"
	start := agents.Request{
		ID: agents.ReservedID("mention", "1"), Prompt: agents.Prompt{Text: "fix it"}, Model: &model.Ref{ID: "other"},
		Repos: []agents.Repository{{URL: "https://git.example.com/open/r", StartingRef: &branch}}, PullRequest: agents.PullRequestOptions{Auto: true},
	}
	with := func(change func(*agents.Request)) agents.Request {
		q := start
		q.ID, q.Repos = agents.ReservedID("mention", "refused"), slices.Clone(q.Repos)
		change(&q)
		return q
	}
	option := "--upload-pack=x"
	h.want(h.callAs(adminsKey, "PATCH", "/v1/repository-access", `{"mode":"allow-list","everyone":["git.example.com/open/*"]}`), 200)
	for name, tt := range map[string]struct {
		userID int64
		start  agents.Request
		kind   fault.Kind
	}{
		"a viewer":                   {viewer, with(func(*agents.Request) {}), fault.KindDenied},
		"a repository out of reach":  {ben, with(func(q *agents.Request) { q.Repos[0].URL = "https://git.example.com/shut/r" }), fault.KindDenied},
		"a model that is not there":  {ben, with(func(q *agents.Request) { q.Model = &model.Ref{ID: "huge"} }), fault.KindInvalid},
		"a branch that is an option": {ben, with(func(q *agents.Request) { q.Repos[0].StartingRef = &option }), fault.KindInvalid},
		"a blank prompt":             {ben, with(func(q *agents.Request) { q.Prompt.Text = " " }), fault.KindInvalid},
	} {
		if err := h.start(tt.userID, tt.start); !fault.Is(err, tt.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.store.Agent(t.Context(), agents.ReservedID("mention", "refused")); err == nil {
		t.Error("a refused agent exists")
	}
	if err := h.start(ben, start); err != nil {
		t.Fatal(err)
	}
	if err := h.start(ben, start); fault.Of(err).Code != "agent_id_conflict" {
		t.Errorf("started again: %v", err)
	}
	a, err := h.store.Agent(t.Context(), start.ID)
	if err != nil || a.UserID != ben || !a.Pull.Auto || a.Model != "other" || len(a.Repos) != 1 || a.Repos[0].StartingRef != "dev" || !agent.ValidID(a.ID) {
		t.Errorf("agent %+v, %v", a, err)
	}
	if got := h.callAs(bensKey, "POST", "/v1/agents", `{"prompt":{"text":"x"},"agentId":"`+agents.ReservedID("mention", "2")+`"}`); got.status != 400 {
		t.Errorf("a client takes the id of a mention: %d %s", got.status, got.body)
	}

	run := agent.NewRunID()
	for range 2 { // a repeat changes nothing
		if err := h.api.agents.FollowUp(t.Context(), a.ID, run, agent.ByMention, "and a test", "house"); err != nil {
			t.Fatal(err)
		}
	}
	if a, err = h.store.Agent(t.Context(), a.ID); err != nil || len(a.Queue) != 1 || a.Queue[0].RunID != run {
		t.Errorf("queue %+v, %v", a.Queue, err)
	}
	if err := h.api.agents.FollowUp(t.Context(), a.ID, run, agent.ByMention, "another prompt", ""); err != nil && fault.Of(err).Code != "idempotency_key_reused" {
		t.Errorf("another prompt of the same run: %v", err)
	}
	h.want(h.callAs(adminsKey, "PATCH", "/v1/members/2", `{"disabled":true}`), 200)
	for name, err := range map[string]error{
		"start":     h.start(ben, with(func(*agents.Request) {})),
		"follow-up": h.api.agents.FollowUp(t.Context(), a.ID, agent.NewRunID(), agent.ByMention, "x", ""),
	} {
		if !fault.Is(err, fault.KindDenied) {
			t.Errorf("%s of a disabled user: %v", name, err)
		}
	}
}
