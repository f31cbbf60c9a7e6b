package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/api/agents"
)

// Settings apply to agents that are created later.
func TestSettings(t *testing.T) {
	h := newHouse(t)
	if a := h.want(h.callAs(viewersKey, "GET", "/v1/settings", ""), 200); a.get(t, "displayAgentSummary") != true || a.text(t, "defaultModel") != "" {
		t.Errorf("at first: %s", a.body)
	}
	for _, bad := range []string{
		`{"defaultModel":"gone"}`, `{"fastModel":"gone"}`, `{"defaultRepository":"no url"}`, `{"baseBranch":"a..b"}`, `{"retentionDays":-1}`, `{"retentionDays":"x"}`, `{"machineRetentionDays":-1}`, `{"machineRetentionDays":3651}`, `{"privacyMode":1}`,
	} {
		h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", bad), 400)
	}
	before, run := h.begin()
	a := h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", `{"defaultModel":"other","defaultRepository":"github.com/acme/app","baseBranch":"trunk"}`), 200)
	if a.text(t, "defaultRepository") != "https://github.com/acme/app" {
		t.Errorf("settled: %s", a.body)
	}
	made := func(body string) *agent.Created {
		t.Helper()
		a := h.want(h.call("POST", "/v1/agents", body), 201)
		return h.created(a.text(t, "agent.id"))
	}
	if c := made(`{"prompt":{"text":"x"}}`); c.Model != "other" || len(c.Repos) != 1 || c.Repos[0] != (agent.Repo{URL: "https://github.com/acme/app", StartingRef: "trunk", TeamBase: true}) {
		t.Errorf("an agent that names nothing: %+v", c)
	}
	if c := made(`{"prompt":{"text":"x"},"model":{"id":"house"},"repos":[{"url":"github.com/o/r","startingRef":"v1"}]}`); c.Model != "house" || c.Repos[0].StartingRef != "v1" || c.Repos[0].TeamBase {
		t.Errorf("an agent that names all: %+v", c)
	}
	if c := made(`{"prompt":{"text":"x"},"repos":[]}`); len(c.Repos) != 0 {
		t.Errorf("an agent without a repository: %+v", c)
	}
	if c := made(`{"prompt":{"text":"x"},"model":{"id":"default"}}`); c.Model != "other" {
		t.Errorf("an agent that names the default model has %q", c.Model)
	}
	if a := h.want(h.call("GET", "/v1/models", ""), 200); !strings.HasPrefix(string(a.body), `{"items":[{"id":"other",`) || strings.Count(string(a.body), `"default"`) != 1 {
		t.Errorf("the default model is not listed first: %s", a.body)
	}
	h.append(before, run, &agent.RunStarted{}, &agent.RunEnded{Status: agent.Finished})
	h.want(h.call("POST", "/v1/agents/"+before+"/runs", `{"prompt":{"text":"x"},"model":{"id":"default"}}`), 201)
	if got := h.folded(before).Agent.Model; got != "other" {
		t.Errorf("a follow-up with the default model has %q", got)
	}
	if c := h.created(before); c.Model != "" || c.Repos[0].StartingRef != "main" {
		t.Errorf("an agent from before: %+v", c)
	}
	h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", `{"defaultModel":"","defaultRepository":"","baseBranch":""}`), 200)
	if c := made(`{"prompt":{"text":"x"}}`); c.Model != "" || len(c.Repos) != 0 {
		t.Errorf("an agent when nothing is settled: %+v", c)
	}
}

// Agents fix failed checks unless an admin disables it.
func TestFixFailedChecksSetting(t *testing.T) {
	h := newHouse(t)
	if got := h.want(h.call("GET", "/v1/settings", ""), 200).get(t, "fixFailedChecks"); got != true {
		t.Errorf("by default: %v", got)
	}
	for _, on := range []bool{false, true} {
		h.want(h.callAs(adminsKey, "PATCH", "/v1/settings", fmt.Sprintf(`{"fixFailedChecks":%v}`, on)), 200)
		if got := h.want(h.call("GET", "/v1/settings", ""), 200).get(t, "fixFailedChecks"); got != on {
			t.Errorf("set to %v: %v", on, got)
		}
	}
}

// created returns the agent's first event.
func (h *house) created(id string) *agent.Created {
	h.t.Helper()
	events, err := h.store.Read(h.t.Context(), id, 0, 1)
	if err != nil || len(events) != 1 {
		h.t.Fatalf("journal: %v, %v", events, err)
	}
	return events[0].Body.(*agent.Created)
}

// Lists hide the activity of agents that are created after an admin has
// disabled summaries.
func TestHiddenSummary(t *testing.T) {
	h := newHouse(t)
	doing := func(id string) any {
		t.Helper()
		for _, one := range h.want(h.call("GET", "/v1/agents", ""), 200).get(t, "items").([]any) {
			if one := one.(map[string]any); one["id"] == id {
				return one["doing"]
			}
		}
		t.Fatalf("no %s in the list", id)
		return nil
	}
	fail := func(id, runID string) {
		h.append(id, runID, &agent.RunEnded{Status: agent.Failed, Failure: &agent.Failure{Code: "x", Message: "secret.go does not build"}})
	}
	shown, run := h.begin()
	fail(shown, run)
	h.want(h.call("PATCH", "/v1/settings", `{"displayAgentSummary":false}`), 200)
	hidden, run := h.begin()
	fail(hidden, run)
	if got := doing(shown); got != "secret.go does not build" {
		t.Errorf("an agent from before: %v", got)
	}
	if got := doing(hidden); got != nil {
		t.Errorf("a hidden one: %v", got)
	}
}

func TestRetention(t *testing.T) {
	h := newHouse(t)
	kept, keptRun := h.begin()
	h.append(kept, keptRun, finish())
	h.want(h.call("PATCH", "/v1/settings", `{"retentionDays":2}`), 200)
	old, oldRun := h.begin()
	h.append(old, oldRun, finish())
	busy, busyRun := h.begin()
	for _, c := range []struct {
		id, run     string
		least, most int
	}{{kept, keptRun, 365 * 86400, 365 * 86400}, {busy, busyRun, 2 * 86400, 2 * 86400}, {old, oldRun, 1, 2*86400 - 1}} {
		resp := h.open(streamOf(c.id, c.run), "")
		said := resp.Header.Get("X-Cursor-Stream-Retention-Seconds")
		if n, err := strconv.Atoi(said); err != nil || n < c.least || n > c.most {
			t.Errorf("the stream of %s is kept for %q seconds, want %d to %d", c.id, said, c.least, c.most)
		}
	}
	for id, want := range map[string]bool{old: true, kept: false} { // the stream's warning
		var one agents.AgentSummary
		if err := json.Unmarshal(h.want(h.call("GET", "/v1/agents/"+id, ""), 200).body, &one); err != nil {
			t.Fatal(err)
		}
		if (one.DeletedAt != nil) != want || want && one.DeletedAt.Sub(one.UpdatedAt) != 48*time.Hour {
			t.Errorf("%s is deleted at %v", id, one.DeletedAt)
		}
	}
	if n, err := h.api.agents.Expire(t.Context(), time.Now().Add(47*time.Hour)); n != 0 || err != nil {
		t.Errorf("early: %d, %v", n, err)
	}
	if n, err := h.api.agents.Expire(t.Context(), time.Now().Add(49*time.Hour)); n != 1 || err != nil {
		t.Errorf("late: %d, %v", n, err)
	}
	h.want(h.call("GET", "/v1/agents/"+old, ""), 404)
	h.want(h.call("GET", "/v1/agents/"+busy, ""), 200)
	h.want(h.call("GET", "/v1/agents/"+kept, ""), 200) // the agent was created before the change
}

// The server applies a network setting completely or not at all.
func TestTeamNetwork(t *testing.T) {
	h := newHouse(t)
	const at = "/v1/settings"
	if a := h.want(h.call("GET", at, ""), 200); a.text(t, "networkMode") != "allow_all" || len(a.get(t, "networkAllowlist").([]any)) != 0 {
		t.Errorf("at first: %s", a.body)
	}
	h.want(h.callAs(adminsKey, "PATCH", at, `{"networkMode":"network_settings_only","networkAllowlist":["*.example.com","192.0.2.0/24"]}`), 200)
	for _, bad := range []string{
		`{"networkMode":"all of it"}`, `{"networkMode":""}`, `{"networkAllowlist":["a b.example"]}`, `{"networkAllowlist":[" "]}`, `{"networkAllowlist":[""]}`, `{"networkAllowlist":["http://a.example"]}`,
		`{"networkMode":"allow_all","networkAllowlist":["/"]}`, `{"networkAllowlist":["a.example\tb.example"]}`, `{"networkAllowlist":[` + strings.Repeat(`"a.example",`, 1000) + `"a.example"]}`,
	} {
		h.want(h.callAs(adminsKey, "PATCH", at, bad), 400)
	}
	if a := h.want(h.callAs(viewersKey, "GET", at, ""), 200); a.text(t, "networkMode") != "network_settings_only" || fmt.Sprint(a.get(t, "networkAllowlist")) != "[*.example.com 192.0.2.0/24]" {
		t.Errorf("settled: %s", a.body)
	}
	h.want(h.callAs(bensKey, "PATCH", at, `{"networkMode":"allow_all"}`), 403)
	if a := h.want(h.callAs(adminsKey, "PATCH", at, `{"networkMode":"allow_all","networkAllowlist":[]}`), 200); a.text(t, "networkMode") != "allow_all" || len(a.get(t, "networkAllowlist").([]any)) != 0 {
		t.Errorf("taken back: %s", a.body)
	}
}

// The team cannot keep machines longer than the server allows.
func TestMachineRetention(t *testing.T) {
	h := newHouse(t)
	h.want(h.call("PATCH", "/v1/settings", `{"machineRetentionDays":90}`), 200) // this server keeps machines forever
	h.api.accounts.MachineRetention = 30 * 24 * time.Hour
	if a := h.want(h.call("PATCH", "/v1/settings", `{"machineRetentionDays":31}`), 400); !strings.Contains(string(a.body), "limit of 30 days") {
		t.Errorf("more than the server: %s", a.body)
	}
	for _, days := range []float64{30, 7, 0} {
		h.want(h.call("PATCH", "/v1/settings", fmt.Sprintf(`{"machineRetentionDays":%v}`, days)), 200)
		if a := h.want(h.call("GET", "/v1/settings", ""), 200); a.get(t, "machineRetentionDays") != days {
			t.Errorf("settled %v: %s", days, a.body)
		}
	}
}

func TestUsageReport(t *testing.T) {
	h := newHouse(t)
	for range 2 {
		id, runID := h.begin()
		h.append(id, runID, append(someWork(), finish())...)
	}
	all := h.want(h.callAs(adminsKey, "GET", "/v1/usage", ""), 200)
	items := all.get(t, "items").([]any)
	if len(items) != 1 {
		t.Fatalf("report: %s", all.body)
	}
	row := items[0].(map[string]any)
	if row["runs"] != 2. || row["repository"] != "https://git.example.com/o/r.git" || row["userId"] != 1. || row["inputTokens"] != 66. || row["day"] != time.Now().UTC().Format(time.DateOnly) {
		t.Errorf("row %v", row)
	}
	if a := h.want(h.callAs(bensKey, "GET", "/v1/usage", ""), 200); len(a.get(t, "items").([]any)) != 0 {
		t.Errorf("ben sees %s", a.body)
	}
	if a := h.want(h.call("GET", "/v1/usage?from=2020-01-01&to=2020-01-02", ""), 200); len(a.get(t, "items").([]any)) != 0 {
		t.Errorf("long ago: %s", a.body)
	}
	for _, bad := range []string{"from=x", "to=2020-13-01", "from=2020-01-02&to=2020-01-01", "from=2018-01-01&to=2020-01-01"} {
		h.want(h.call("GET", "/v1/usage?"+bad, ""), 400)
	}
}
