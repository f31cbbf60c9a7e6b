package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

var ruleTests = []test{
	{"RuleIsReplaced", testRule},
	{"AgentsWait", testWaiting},
	{"QueueIsKept", testQueue},
}

func testRule(t *testing.T, s Store) {
	get := func(owner, name, want string) {
		t.Helper()
		if got, err := s.Rule(t.Context(), owner, name); err != nil || got != want {
			t.Errorf("%s of %s is %q, %v; want %q", name, owner, got, err, want)
		}
	}
	get(store.TeamRules, "permissions.json", "")
	for _, text := range []string{"{}", `{"terminalAllowlist":["ls"]}`} {
		if err := s.SetRule(t.Context(), store.RulesOf(7), "permissions.json", text); err != nil {
			t.Fatal(err)
		}
		get(store.RulesOf(7), "permissions.json", text)
	}
	get(store.RulesOf(8), "permissions.json", "")
	get(store.RulesOf(7), "sandbox.json", "")
	get(store.TeamRules, "permissions.json", "")
}

func testWaiting(t *testing.T, s Store) {
	agentID, runID := newAgent(t, s)
	approval := agent.Approval{ID: "apr-1", RunID: runID, CallID: "c", Tool: "Shell", Subject: "rm x", Why: "no entry", AskedAt: time.Unix(5, 0).UTC()}
	waiting := func(want ...agent.Approval) {
		t.Helper()
		a, err := s.Agent(t.Context(), agentID)
		if err != nil {
			t.Fatal(err)
		}
		if others, err := s.WaitingAgents(t.Context(), a.UserID+1, 10); err != nil || len(others) > 0 {
			t.Errorf("another user is asked: %+v, %v", others, err)
		}
		list, err := s.WaitingAgents(t.Context(), a.UserID, 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []agent.Approval
		for _, a := range list {
			got = append(got, a.Approvals...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what waits (-want +got):\n%s", diff)
		}
	}
	write := func(b agent.Body) {
		mustAppend(t, s, store.Append{AgentID: agentID, Events: []agent.Event{{RunID: runID, Body: b}}})
	}
	waiting()
	write(&agent.ApprovalAsked{Approval: approval})
	waiting(approval)
	write(&agent.ApprovalAnswered{ApprovalID: "apr-2", Decision: agent.Deny})
	waiting(approval)
	write(&agent.ApprovalAnswered{ApprovalID: "apr-1", Decision: agent.Deny})
	waiting()
	write(&agent.ApprovalAsked{Approval: approval})
	write(&agent.RunEnded{Status: agent.Cancelled})
	waiting()
}

func testQueue(t *testing.T, s Store) {
	agentID, _ := newAgent(t, s)
	next := func(want string) {
		t.Helper()
		a, err := s.Agent(t.Context(), agentID)
		if err != nil {
			t.Fatal(err)
		}
		events, err := store.Next(t.Context(), s, a)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(events) > 0 {
			got = events[0].RunID
		}
		if got != want {
			t.Errorf("next is %q, not %q", got, want)
		}
	}
	write := func(events ...agent.Event) { mustAppend(t, s, store.Append{AgentID: agentID, Events: events}) }
	queued := func(id string) agent.Event {
		return agent.Event{Body: &agent.Queued{RunID: id, RunCreated: agent.RunCreated{Prompt: conversation.Text(conversation.User, "then")}}}
	}
	next("")
	write(queued("run-2"), queued("run-3"), queued("run-4"))
	next("run-2")
	write(agent.Event{Body: &agent.Unqueued{RunID: "run-3"}}, prompt("run-2"))
	next("run-4")
	write(agent.Event{Body: &agent.Archived{Archived: true}})
	next("")
	write(agent.Event{Body: &agent.Archived{}}, prompt("run-4"))
	next("")
}
