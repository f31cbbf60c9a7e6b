package storetest

import (
	"errors"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/secret"
)

var webhookTests = []test{
	{"RunsEndMakesADelivery", testDelivery},
	{"QuestionMakesADelivery", testQuestionDelivery},
	{"WebhookHearsWhatItWants", testWantedDelivery},
	{"DeliveryIsClaimedOnce", testClaim},
	{"DeliveryIsReplayed", testRedeliver},
}

// newHooked creates an agent with an open run and a webhook that gets the given
// events, or all if none are given.
func newHooked(t *testing.T, s Store, hears ...string) (agentID, runID string) {
	t.Helper()
	agentID, runID = agent.NewID(), agent.NewRunID()
	mustAppend(t, s, store.Append{
		AgentID: agentID, IfHead: ptr(0), Secrets: []secret.Sealed{sealed(secret.Owner{Kind: secret.OfWebhook, ID: agentID}, "webhook")},
		Events: []agent.Event{{Body: &agent.Created{Env: agent.Env{Type: "cloud"}, WebhookEvents: hears}}, prompt(runID)},
	})
	return agentID, runID
}

func end(t *testing.T, s Store, agentID, runID string) {
	t.Helper()
	mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{{RunID: runID, Body: &agent.RunEnded{Status: agent.Failed}}}})
}

func deliveries(t *testing.T, s Store, agentID string) []store.Delivery {
	t.Helper()
	list, err := s.Deliveries(t.Context(), agentID, store.Page{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func claim(t *testing.T, s Store, owner string, again time.Duration) []store.Delivery {
	t.Helper()
	list, err := s.ClaimDeliveries(t.Context(), owner, again, 10)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func testDelivery(t *testing.T, s Store) {
	plain, run := newAgent(t, s)
	end(t, s, plain, run)
	if list := deliveries(t, s, plain); len(list) != 0 {
		t.Errorf("an agent without a webhook has %v", list)
	}
	id, run := newHooked(t, s)
	if list := deliveries(t, s, id); len(list) != 0 {
		t.Errorf("before its run has ended: %v", list)
	}
	end(t, s, id, run)
	second := agent.NewRunID()
	mustAppend(t, s, store.Append{AgentID: id, Events: []agent.Event{prompt(second)}})
	end(t, s, id, second)
	list := deliveries(t, s, id)
	if len(list) != 2 || list[0].RunID != second || list[1].RunID != run || list[0].ID == list[1].ID ||
		list[1].State != store.DeliveryPending || list[1].Until.Sub(list[1].CreatedAt) != store.DeliverWithin || !list[1].LastAt.IsZero() {
		t.Errorf("deliveries %+v", list)
	}
	page, err := s.Deliveries(t.Context(), id, store.Page{Limit: 10, BeforeTime: list[0].CreatedAt, BeforeID: list[0].ID})
	if err != nil || len(page) != 1 || page[0].ID != list[1].ID {
		t.Errorf("second page %v, %v", page, err)
	}
	if err := s.DeleteAgent(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if left, err := s.Secrets(t.Context(), secret.Owner{Kind: secret.OfWebhook, ID: id}); err != nil || len(left) != 0 || len(deliveries(t, s, id)) != 0 {
		t.Errorf("left of a deleted agent: %v, %v", left, err)
	}
	if err := s.PutAttempt(t.Context(), list[0]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an attempt at what is gone: %v", err)
	}
}

func testQuestionDelivery(t *testing.T, s Store) {
	id, run := newHooked(t, s)
	asked := agent.Event{RunID: run, Body: &agent.ApprovalAsked{Approval: agent.Approval{ID: agent.NewApprovalID(), RunID: run}}}
	other := asked
	other.Body = &agent.ApprovalAsked{Approval: agent.Approval{ID: agent.NewApprovalID(), RunID: run}}
	events := mustAppend(t, s, store.Append{AgentID: id, Events: []agent.Event{asked, other}})
	end(t, s, id, run)
	seen := map[int64]store.DeliveryEvent{}
	ids := map[string]bool{}
	for _, d := range deliveries(t, s, id) {
		seen[d.Seq], ids[d.ID] = d.Event, true
	}
	last := events[1].Seq + 1
	if len(ids) != 3 || seen[events[0].Seq] != store.ApprovalRequested || seen[events[1].Seq] != store.ApprovalRequested || seen[last] != store.StatusChange {
		t.Errorf("deliveries of the events %v, of %d ids", seen, len(ids))
	}
}

func testWantedDelivery(t *testing.T, s Store) {
	id, run := newHooked(t, s, string(store.StatusChange))
	asked := agent.Event{RunID: run, Body: &agent.ApprovalAsked{Approval: agent.Approval{ID: agent.NewApprovalID(), RunID: run}}}
	mustAppend(t, s, store.Append{AgentID: id, Events: []agent.Event{asked, {RunID: run, Body: &agent.RunEnded{Status: agent.Failed}}}})
	if list := deliveries(t, s, id); len(list) != 1 || list[0].Event != store.StatusChange {
		t.Errorf("what is to be told: %+v", list)
	}
}

func testClaim(t *testing.T, s Store) {
	id, run := newHooked(t, s)
	end(t, s, id, run)
	first := claim(t, s, "a", time.Hour)
	if len(first) != 1 || first[0].AgentID != id || len(claim(t, s, "b", time.Hour)) != 0 {
		t.Fatalf("claimed %v, or twice", first)
	}
	if err := s.ReleaseDeliveries(t.Context(), "b"); err != nil || len(claim(t, s, "b", time.Hour)) != 0 {
		t.Errorf("another's claim was released: %v", err)
	}
	if err := s.ReleaseDeliveries(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if again := claim(t, s, "b", 0); len(again) != 1 || again[0].ID != first[0].ID { // a claim that has expired
		t.Fatalf("released: %v", again)
	}
	again := claim(t, s, "c", time.Hour)
	if len(again) != 1 {
		t.Fatalf("what a dead server had claimed: %v", again)
	}
	d := again[0]
	d.State, d.Attempts, d.NextAt, d.LastAt, d.LastStatus, d.LastError = store.DeliveryDone, 3, d.NextAt.Add(time.Second), d.CreatedAt.Add(time.Second), 204, "none"
	if err := s.PutAttempt(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got := deliveries(t, s, id); len(got) != 1 || got[0] != d {
		t.Errorf("recorded %+v, want %+v", got, d)
	}
	if err := s.ReleaseDeliveries(t.Context(), "c"); err != nil || len(claim(t, s, "b", 0)) != 0 {
		t.Errorf("what was delivered is due again: %v", err)
	}
}

func testRedeliver(t *testing.T, s Store) {
	id, run := newHooked(t, s)
	end(t, s, id, run)
	d := claim(t, s, "a", time.Hour)[0]
	d.State, d.Attempts = store.DeliveryFailed, 9
	if err := s.PutAttempt(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if err := s.Redeliver(t.Context(), agent.NewID(), d.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another agent's delivery: %v", err)
	}
	if err := s.Redeliver(t.Context(), id, d.ID); err != nil {
		t.Fatal(err)
	}
	if again := claim(t, s, "a", time.Hour); len(again) != 1 || again[0].ID != d.ID || again[0].State != store.DeliveryPending || !again[0].Until.After(d.Until) {
		t.Errorf("replayed: %+v", again)
	}
}
