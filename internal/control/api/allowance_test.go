package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/model"
)

// TestLimitsAreJudged checks which limits a request may set on a server that
// allows 100 turns, with a team that allows 50 minutes.
func TestLimitsAreJudged(t *testing.T) {
	h := newHouse(t)
	h.api.models.Limit = allowance.Amount{Turns: 100}
	h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", `{"maxSeconds":3000}`), 200)
	for _, c := range []struct{ limits, code string }{
		{`{"turns":100,"seconds":3000}`, ""}, {`{"tokens":5}`, ""}, {`{}`, ""},
		{`{"turns":101}`, "limit_too_high"}, {`{"seconds":3001}`, "limit_too_high"},
		{`{"turns":-1}`, "validation_error"}, {`{"costUsd":-0.5}`, "validation_error"}, {`{"costUsd":1e9}`, "validation_error"}, {`{"tokens":"x"}`, "validation_error"}, {`{"tokens":1.5}`, "validation_error"},
		{`{"costUsd":1}`, "model_unpriced"},
	} {
		a := h.call("POST", "/v1/agents", `{"prompt":{"text":"x"},"limits":`+c.limits+`}`)
		if c.code == "" {
			h.want(a, 201)
		} else if code := h.want(a, 400).text(t, "error.code"); code != c.code {
			t.Errorf("%s: %s", c.limits, a.body)
		}
	}
	h.priced()
	h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"},"limits":{"costUsd":1}}`), 201)
}

// priced gives every model a price of zero.
func (h *house) priced() {
	zero := 0.0
	for i := range h.api.models.Models {
		h.api.models.Models[i].Price = &model.Price{Input: &zero, Output: &zero, CacheRead: &zero, CacheWrite: &zero}
	}
}

// A run's limits also apply to later runs.
func TestLimitsOfFollowUps(t *testing.T) {
	h := newHouse(t)
	made := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"},"limits":{"turns":7}}`), 201)
	id, runID := made.text(t, "agent.id"), made.text(t, "run.id")
	limit := func() allowance.Amount {
		t.Helper()
		a, err := h.store.Agent(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return a.Limit
	}
	h.append(id, runID, &agent.RunStarted{Limit: allowance.Amount{Turns: 7}}, &agent.RunEnded{Status: agent.Expired,
		Failure: &agent.Failure{Code: "limit_turns", Message: "the run has used 7 turns; its limit is 7 turns", Hint: "send a follow-up"}})
	run := h.want(h.call("GET", "/v1/agents/"+id+"/runs/"+runID, ""), 200)
	if run.text(t, "status") != "EXPIRED" || run.text(t, "error.code") != "limit_turns" || fmt.Sprint(run.get(t, "limits.turns")) != "7" || !strings.Contains(run.text(t, "error.message"), "(send a follow-up)") {
		t.Errorf("%s", run.body)
	}
	queued := h.want(h.call("POST", "/v1/agents/"+id+"/queue", `{"prompt":{"text":"go on"}}`), 201).text(t, "runId")
	if got := limit(); got != (allowance.Amount{Turns: 7}) {
		t.Errorf("as it was: %+v", got)
	}
	h.append(id, queued, &agent.RunStarted{}, finish())
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"go on"},"limits":{"seconds":60}}`), 201)
	if got := limit(); got != (allowance.Amount{Seconds: 60}) {
		t.Errorf("in its place: %+v", got)
	}
	h.want(h.call("POST", "/v1/agents/"+id+"/queue", `{"prompt":{"text":"then"},"limits":{}}`), 201)
	run = h.want(h.call("GET", "/v1/agents/"+id, ""), 200)
	h.append(id, run.text(t, "latestRunId"), &agent.RunStarted{}, finish())
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"and then"},"limits":{}}`), 201)
	if got := limit(); got != (allowance.Amount{}) {
		t.Errorf("lifted: %+v", got)
	}
}

// While an agent is paused, its run's time limit does not count.
func TestPauseStopsTheClock(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	h.append(id, runID, &agent.RunStarted{})
	for _, verb := range []string{"pause", "resume"} {
		h.want(h.call("POST", "/v1/agents/"+id+"/"+verb, ""), 200)
		run, err := h.store.Run(t.Context(), id, runID)
		if err != nil || run.Clock.Since.IsZero() != (verb == "pause") {
			t.Errorf("after %s: %+v, %v", verb, run.Clock, err)
		}
	}
	h.append(id, runID, finish())
	run, err := h.store.Run(t.Context(), id, runID)
	if now := time.Now(); err != nil || run.Clock.Time(now) != run.Clock.Time(now.Add(time.Hour)) {
		t.Errorf("after its end: %+v, %v", run.Clock, err)
	}
}

// Admins can set the team's limits, but not above the server's limits.
func TestSettingsOfLimits(t *testing.T) {
	h := newHouse(t)
	h.api.models.Limit = allowance.Amount{Tokens: 1000}
	h.want(h.callAs(bensKey, "PATCH", "/v1/settings", `{"maxTurns":5}`), 403)
	h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", `{"maxTokens":1001}`), 400)
	h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", `{"maxCostUsd":5}`), 400)
	h.priced()
	a := h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", `{"maxTurns":5,"maxCostUsd":2.5,"maxTokens":10}`), 200)
	if fmt.Sprint(a.get(t, "maxTurns"), a.get(t, "maxCostUsd"), a.get(t, "maxTokens"), a.get(t, "maxSeconds")) != "5 2.5 10 0" {
		t.Errorf("%s", a.body)
	}
	h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", `{"maxTurns":0,"maxCostUsd":0}`), 200)
}
