package api

import (
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/api/agents"
	"aloft/internal/fault"
)

// What the server starts for a user obeys the rules for that user's requests, and
// happens once for each id.
func TestStartForAUser(t *testing.T) {
	h := newHouse(t)
	h.api.pulls.Pulls = &forgeNotes{}
	const ben, viewer = 2, 3
	start := agents.Start{AgentID: agents.ReservedID("mention", "1"), UserID: ben, Prompt: "fix it", RepoURL: "https://git.example.com/open/r", Branch: "dev", Model: "other"}
	with := func(change func(*agents.Start)) agents.Start {
		s := start
		s.AgentID = agents.ReservedID("mention", "refused")
		change(&s)
		return s
	}
	h.want(h.callAs(adminsKey, "PATCH", "/v1/repository-access", `{"mode":"allow-list","everyone":["git.example.com/open/*"]}`), 200)
	for name, tt := range map[string]struct {
		start agents.Start
		kind  fault.Kind
	}{
		"a viewer":                   {with(func(s *agents.Start) { s.UserID = viewer }), fault.KindDenied},
		"a repository out of reach":  {with(func(s *agents.Start) { s.RepoURL = "https://git.example.com/shut/r" }), fault.KindDenied},
		"a model that is not there":  {with(func(s *agents.Start) { s.Model = "huge" }), fault.KindInvalid},
		"a branch that is an option": {with(func(s *agents.Start) { s.Branch = "--upload-pack=x" }), fault.KindInvalid},
	} {
		if err := h.api.agents.Start(t.Context(), tt.start); !fault.Is(err, tt.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.store.Agent(t.Context(), agents.ReservedID("mention", "refused")); err == nil {
		t.Error("a refused agent exists")
	}
	if err := h.api.agents.Start(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	if err := h.api.agents.Start(t.Context(), start); fault.Of(err).Code != "agent_id_conflict" {
		t.Errorf("started again: %v", err)
	}
	a, err := h.store.Agent(t.Context(), start.AgentID)
	if err != nil || a.UserID != ben || !a.Pull.Auto || a.Model != "other" || len(a.Repos) != 1 || a.Repos[0].StartingRef != "dev" || !agent.ValidID(a.ID) {
		t.Errorf("agent %+v, %v", a, err)
	}
	if got := h.callAs(bensKey, "POST", "/v1/agents", `{"prompt":{"text":"x"},"agentId":"`+agents.ReservedID("mention", "2")+`"}`); got.status != 400 {
		t.Errorf("a client takes the id of a mention: %d %s", got.status, got.body)
	}

	run := agent.NewRunID()
	for range 2 { // a repeat changes nothing
		if err := h.api.agents.FollowUp(t.Context(), a.ID, run, "and a test", "house"); err != nil {
			t.Fatal(err)
		}
	}
	if a, err = h.store.Agent(t.Context(), a.ID); err != nil || len(a.Queue) != 1 || a.Queue[0].RunID != run {
		t.Errorf("queue %+v, %v", a.Queue, err)
	}
	if err := h.api.agents.FollowUp(t.Context(), a.ID, run, "another prompt", ""); err != nil && fault.Of(err).Code != "idempotency_key_reused" {
		t.Errorf("another prompt of the same run: %v", err)
	}
	h.want(h.callAs(adminsKey, "PATCH", "/v1/members/2", `{"disabled":true}`), 200)
	for name, err := range map[string]error{
		"start":     h.api.agents.Start(t.Context(), with(func(*agents.Start) {})),
		"follow-up": h.api.agents.FollowUp(t.Context(), a.ID, agent.NewRunID(), "x", ""),
	} {
		if !fault.Is(err, fault.KindDenied) {
			t.Errorf("%s of a disabled user: %v", name, err)
		}
	}
}
