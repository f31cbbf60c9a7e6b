package api

import (
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/model"
)

// withParams gives the model "house" parameters.
func (h *house) withParams() {
	for i := range h.api.models.Models {
		if m := &h.api.models.Models[i]; m.ID == "house" {
			m.Description = "for hard tasks"
			m.Params = []model.Param{
				{ID: model.ParamThinking, Values: []string{"true", "false"}, Default: "true"},
				{ID: model.ParamEffort, Values: []string{"low", "high"}},
			}
		}
	}
}

func TestModelParams(t *testing.T) {
	h := newHouse(t)
	h.withParams()
	list := h.want(h.call("GET", "/v1/models", ""), 200)
	if want := `{"items":[{"id":"house","displayName":"house","description":"for hard tasks","aliases":["default"],"parameters":[` +
		`{"id":"thinking","displayName":"Thinking","values":[{"value":"true","displayName":"On"},{"value":"false","displayName":"Off"}]},` +
		`{"id":"effort","displayName":"Effort","values":[{"value":"low","displayName":"Low"},{"value":"high","displayName":"High"}]}],"variants":[` +
		`{"params":[{"id":"thinking","value":"true"}],"displayName":"house","description":"for hard tasks","isDefault":true},` +
		`{"params":[{"id":"thinking","value":"false"}],"displayName":"house (Thinking: Off)"},` +
		`{"params":[{"id":"thinking","value":"true"},{"id":"effort","value":"low"}],"displayName":"house (Effort: Low)"},` +
		`{"params":[{"id":"thinking","value":"true"},{"id":"effort","value":"high"}],"displayName":"house (Effort: High)"}]},` +
		`{"id":"other","displayName":"Other"}]}` + "\n"; string(list.body) != want {
		t.Errorf("models: %s", list.body)
	}

	post := func(ref string, status int) answer {
		t.Helper()
		return h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"},"model":`+ref+`}`), status)
	}
	made := post(`{"id":"house","params":[{"id":"thinking","value":"false"},{"id":"effort","value":"high"}]}`, 201)
	id := made.text(t, "agent.id")
	if c := h.created(id); c.Model != "house[effort=high,thinking=false]" {
		t.Errorf("journaled: %q", c.Model)
	}
	if !strings.Contains(string(made.body), `"model":"house","modelParams":[{"id":"effort","value":"high"},{"id":"thinking","value":"false"}]`) {
		t.Errorf("shown: %s", made.body)
	}
	for ref, want := range map[string]string{
		`{"id":"house[effort=low]"}`:                                              "house[effort=low]",
		`{"id":"house","params":[]}`:                                              "house",
		`{"id":"default"}`:                                                        "",
		`{"id":"default","params":[{"id":"effort","value":"low"}]}`:               "house[effort=low]",
		`{"id":"house[effort=low]","params":[{"id":"thinking","value":"false"}]}`: "house[effort=low,thinking=false]",
	} {
		if c := h.created(post(ref, 201).text(t, "agent.id")); c.Model != want {
			t.Errorf("%s is journaled as %q, want %q", ref, c.Model, want)
		}
	}
	for ref, says := range map[string][]string{
		`{"id":"house","params":[{"id":"effort","value":"max"}]}`:                                {"model.params[0].value", "low, high"},
		`{"id":"house","params":[{"id":"effort","value":"low"},{"id":"speed","value":"1"}]}`:     {"model.params[1].id", "thinking, effort"},
		`{"id":"other","params":[{"id":"effort","value":"low"}]}`:                                {"model.params[0].id", "has no parameters"},
		`{"id":"house[effort=max]"}`:                                                             {"model.id", "low, high"},
		`{"id":"house","params":[{"id":"effort","value":"low"},{"id":"effort","value":"high"}]}`: {"model.params[1].id", "twice"},
	} {
		body := string(post(ref, 400).body)
		for _, want := range says {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in %s", ref, want, body)
			}
		}
	}

	// A follow-up and a fork may set other parameters; the team's default has
	// its own.
	run := made.text(t, "run.id")
	h.append(id, run, &agent.RunStarted{}, &agent.RunEnded{Status: agent.Finished})
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"x"},"model":{"id":"house","params":[{"id":"effort","value":"low"}]}}`), 201)
	if got := h.folded(id).Agent.Model; got != "house[effort=low]" {
		t.Errorf("a follow-up has %q", got)
	}
	h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", `{"defaultModel":"house[thinking=false]"}`), 200)
	h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", `{"defaultModel":"house[thinking=maybe]"}`), 400)
	if c := h.created(post(`{"id":"default"}`, 201).text(t, "agent.id")); c.Model != "house[thinking=false]" {
		t.Errorf("the team's default is journaled as %q", c.Model)
	}
}

// A model's price does not depend on the model's parameters.
func TestLimitOfMoneyWithParams(t *testing.T) {
	h := newHouse(t)
	h.withParams()
	const body = `{"prompt":{"text":"x"},"limits":{"costUsd":1},"model":{"id":"house","params":[{"id":"effort","value":"low"}]}}`
	h.want(h.call("POST", "/v1/agents", body), 400)
	h.priced()
	h.want(h.call("POST", "/v1/agents", body), 201)
}
