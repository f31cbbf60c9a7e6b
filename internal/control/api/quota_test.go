package api

import (
	"context"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/environments"
	"aloft/internal/environment"
)

// noSetUps saves no machine.
type noSetUps struct{ environments.SetUps }

func (noSetUps) Snapshot(context.Context, agent.Agent) (string, environment.Proposal, error) {
	panic("a machine was saved beyond the quota")
}

// TestQuotas fills each quota of a person: further requests are refused with a
// typed error, repeated ones are answered as before, and another person is not
// affected.
func TestQuotas(t *testing.T) {
	h := newHouse(t)
	refused := func(a answer, what string) {
		t.Helper()
		h.want(a, 429)
		if a.text(t, "error.code") != "usage_limit_exceeded" || !strings.Contains(a.text(t, "error.message"), what) {
			t.Errorf("refused with %s", a.body)
		}
	}
	first := h.want(h.call("POST", "/v1/agents", task, "Idempotency-Key", "again"), 201)
	id, run := first.text(t, "agent.id"), first.text(t, "run.id")

	h.api.Quotas = agents.Quotas{Running: 1}
	refused(h.call("POST", "/v1/agents", task), "the quota of running agents per person is reached: 1 of 1")
	if a := h.want(h.call("POST", "/v0/agents", `{"prompt":{"text":"work"},"source":{"repository":"https://git.example.com/o/r"}}`), 429); a.text(t, "error") != "usage_limit_exceeded" {
		t.Errorf("v0 refused with %s", a.body)
	}
	if same := h.want(h.call("POST", "/v1/agents", task, "Idempotency-Key", "again"), 201); same.text(t, "agent.id") != id {
		t.Errorf("a repeated request started %s", same.body)
	}
	h.want(h.callAs(bensKey, "POST", "/v1/agents", task), 201)
	h.append(id, run, finish())
	other, otherRun := h.begin()
	for _, path := range []string{"/runs", "/queue", "/retry"} {
		body := `{"prompt":{"text":"go on"}}`
		if path == "/retry" {
			body = `{}`
		}
		refused(h.call("POST", "/v1/agents/"+id+path, body), "running agents")
	}
	h.append(other, otherRun, finish())
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"go on"}}`), 201)

	h.api.Quotas = agents.Quotas{Agents: 3}
	refused(h.call("POST", "/v1/agents/"+other+"/fork", `{"prompt":{"text":"a"},"n":2}`), "the quota of agents per person is reached: 2 of 3")
	h.begin()
	refused(h.call("POST", "/v1/agents", task), "agents per person is reached: 3 of 3")
	h.want(h.callAs(bensKey, "POST", "/v1/agents", task), 201)
	h.want(h.call("DELETE", "/v1/agents/"+other, ""), 200)
	h.begin()

	h.api.Quotas, h.api.environments.SetUps = agents.Quotas{Snapshots: 1}, noSetUps{}
	h.snapshotOfAnn()
	refused(h.call("POST", "/v1/agents/"+id+"/snapshots", ""), "snapshots per person is reached: 1 of 1")
}
