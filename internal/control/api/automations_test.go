package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/agents"
	"aloft/internal/control/automation"
	"aloft/internal/control/store"
)

// automationOf stores an automation of a user with a start whose texts contain
// the mark, and returns its id. It does nothing for routes about other resources.
func (h *house) automationOf(userID int64, route, mark string) string {
	h.t.Helper()
	if !strings.Contains(route, "{automationId}") {
		return ""
	}
	now := time.Now().UTC()
	a := store.Automation{
		ID: automation.NewID(), UserID: userID, CreatedBy: userID, Spec: json.RawMessage(`{"name":"` + mark + `","prompt":"` + mark + `","repository":"https://git.example.com/` + mark + `/r"}`),
		Version: 1, State: store.AutomationDraft, CreatedAt: now, UpdatedAt: now,
	}
	if err := h.store.AddAutomation(h.t.Context(), a); err != nil {
		h.t.Fatal(err)
	}
	id := "start-" + mark
	if mark == "x" {
		id = "start-1"
		if _, err := h.store.AutomationStart(h.t.Context(), id); err == nil { // of an earlier route
			old, _ := h.store.AutomationStart(h.t.Context(), id)
			if err := h.store.DeleteAutomation(h.t.Context(), old.AutomationID); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	of := store.AutomationStart{ID: id, AutomationID: a.ID, State: store.StartBacklog, Trigger: "manual", UserID: userID, AgentID: "bc-" + automation.NewID()[5:], CreatedAt: now, Result: mark}
	if _, err := h.store.AddStart(h.t.Context(), of); err != nil {
		h.t.Fatal(err)
	}
	return a.ID
}

const aSpec = `{"name":"Nightly","prompt":"Update {{ inputs.level }}","repository":"https://git.example.com/acme/widget","inputs":[{"name":"level","default":"minor"}],"on":{"schedule":{"cron":"0 3 * * *","timeZone":"Europe/Berlin"}}}`

func TestAutomations(t *testing.T) {
	h := newHouse(t)
	made := h.want(h.callAs(annsKey, "POST", "/v1/automations", `{"spec":`+aSpec+`}`), 201)
	id := made.text(t, "id")
	if made.text(t, "state") != "active" || made.text(t, "nextAt") == "" || made.text(t, "spec.on.schedule.timeZone") != "Europe/Berlin" {
		t.Errorf("%s", made.body)
	}
	path := "/v1/automations/" + id
	paused := h.want(h.callAs(annsKey, "PATCH", path, `{"state":"paused"}`), 200)
	if paused.text(t, "state") != "paused" || strings.Contains(string(paused.body), "nextAt") {
		t.Errorf("%s", paused.body)
	}
	changed := h.want(h.callAs(annsKey, "PATCH", path, `{"state":"active","version":1,"spec":`+strings.Replace(aSpec, "0 3", "0 4", 1)+`}`), 200)
	if fmt.Sprint(changed.get(t, "version")) != "2" || changed.text(t, "nextAt") == made.text(t, "nextAt") {
		t.Errorf("%s", changed.body)
	}
	h.want(h.callAs(annsKey, "PATCH", path, `{"version":1,"spec":`+aSpec+`}`), 409)

	trial := h.want(h.callAs(annsKey, "POST", path+"/try", `{"inputs":{"level":"major"}}`), 200)
	if trial.text(t, "prompt") != "Update major" {
		t.Errorf("%s", trial.body)
	}
	first := h.want(h.callAs(annsKey, "POST", path+"/starts", `{"later":true}`, "Idempotency-Key", "k"), 201)
	second := h.want(h.callAs(annsKey, "POST", path+"/starts", `{"later":true}`, "Idempotency-Key", "k"), 201)
	if first.text(t, "id") != second.text(t, "id") || first.text(t, "state") != "backlog" || strings.Contains(string(first.body), "agentId") {
		t.Errorf("%s, then %s", first.body, second.body)
	}
	of := path + "/starts/" + first.text(t, "id")
	if got := h.want(h.callAs(annsKey, "POST", of+"/promote", ``), 200); got.text(t, "state") != "queued" {
		t.Errorf("%s", got.body)
	}
	h.want(h.callAs(annsKey, "POST", of+"/promote", ``), 409)
	if got := h.want(h.callAs(annsKey, "POST", of+"/cancel", ``), 200); got.text(t, "state") != "cancelled" {
		t.Errorf("%s", got.body)
	}
	other := h.want(h.callAs(annsKey, "POST", "/v1/automations", `{"spec":`+aSpec+`}`), 201).text(t, "id")
	h.want(h.callAs(annsKey, "POST", "/v1/automations/"+other+"/starts/"+first.text(t, "id")+"/cancel", ``), 404)
	h.want(h.callAs(annsKey, "DELETE", path, ``), 200)
	h.want(h.callAs(annsKey, "GET", path, ``), 404)
}

func TestRefusedAutomations(t *testing.T) {
	h := newHouse(t)
	h.want(h.call("PATCH", "/v1/repository-access", `{"mode":"allow-list","members":[{"userId":2,"repositories":["git.example.com/acme/*"]}]}`), 200)
	for body, want := range map[string]string{
		`{"spec":{"name":"x"}}`: "spec.prompt", `{"spec":{"name":"x","prompt":"y","repository":"https://git.example.com/acme/widget","promt":1}}`: "promt",
		`{"spec":{"name":1}}`: "spec.name", `{"state":"on","spec":` + aSpec + `}`: "state",
		`{"spec":` + strings.Replace(aSpec, "0 3 * *", "0 3 *", 1) + `}`:                                                                "spec.on.schedule.cron",
		`{"spec":` + strings.Replace(aSpec, "acme/widget", "secret/r", 1) + `}`:                                                         "spec.repository",
		`{"userId":1,"spec":` + aSpec + `}`:                                                                                             "userId",
		`{"spec":{"name":"x","prompt":"y","repository":"https://git.example.com/acme/widget","on":{"event":{"connection":"deploys"}}}}`: "connection",
	} {
		a := h.callAs(bensKey, "POST", "/v1/automations", body)
		if a.status < 400 || a.status >= 500 || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.body, want)
		}
	}
	// An admin can let a member own the agents, but not an owner.
	h.want(h.callAs(adminsKey, "POST", "/v1/automations", `{"userId":2,"spec":`+aSpec+`}`), 201)
	if a := h.callAs(adminsKey, "POST", "/v1/automations", `{"userId":1,"spec":`+aSpec+`}`); a.status != 403 {
		t.Errorf("%d %s", a.status, a.body)
	}
	h.want(h.callAs(adminsKey, "POST", "/v1/automations", `{"userId":99,"spec":`+aSpec+`}`), 400)
	id := h.automationOf(2, "{automationId}", "x")
	h.want(h.callAs(bensKey, "POST", "/v1/automations/"+id+"/try", `{"eventId":"evt-1"}`), 403)
	h.want(h.callAs(adminsKey, "POST", "/v1/automations/"+id+"/try", `{"eventId":"evt-1"}`), 404)
}

// TestAutomationsOfOneAccount checks that an account owns a limited number of automations,
// and that nobody can give it more.
func TestAutomationsOfOneAccount(t *testing.T) {
	h := newHouse(t)
	now := time.Now().UTC()
	add := func(userID int64) string {
		a := store.Automation{ID: automation.NewID(), UserID: userID, CreatedBy: userID, Spec: json.RawMessage(aSpec), Version: 1, State: store.AutomationDraft, CreatedAt: now, UpdatedAt: now}
		if err := h.store.AddAutomation(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	for range 100 {
		add(2)
	}
	h.want(h.callAs(bensKey, "POST", "/v1/automations", `{"spec":`+aSpec+`}`), 429)
	h.want(h.callAs(adminsKey, "POST", "/v1/automations", `{"userId":2,"spec":`+aSpec+`}`), 429)
	h.want(h.callAs(adminsKey, "PATCH", "/v1/automations/"+add(3), `{"userId":2}`), 429)
	h.want(h.callAs(adminsKey, "POST", "/v1/automations", `{"spec":`+aSpec+`}`), 201)
}

// An automation that a file defines is changed in the file. It can be paused.
func TestAutomationInFile(t *testing.T) {
	h := newHouse(t)
	now := time.Now().UTC()
	a := store.Automation{
		ID: automation.ID("https://git.example.com/acme/widget", "a.yaml"), UserID: 1, Repo: "https://git.example.com/acme/widget", Path: "a.yaml", Commit: "c0ffee",
		Spec: json.RawMessage(aSpec), Version: 1, State: store.AutomationActive, CreatedAt: now, UpdatedAt: now,
	}
	if err := h.store.AddAutomation(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	path := "/v1/automations/" + a.ID
	if got := h.want(h.callAs(annsKey, "GET", path, ``), 200); got.text(t, "source.commit") != "c0ffee" {
		t.Errorf("%s", got.body)
	}
	h.want(h.callAs(annsKey, "PATCH", path, `{"spec":`+aSpec+`}`), 409)
	h.want(h.callAs(annsKey, "DELETE", path, ``), 409)
	h.want(h.callAs(annsKey, "PATCH", path, `{"state":"paused"}`), 200)
	h.want(h.callAs(annsKey, "PATCH", path, `{"state":"active"}`), 200)
}

// noAgents starts no agents: the desk of the tests does not run.
type noAgents struct{}

func (noAgents) Start(context.Context, automation.Start) error { return nil }
func (noAgents) Cancel(context.Context, string, string) error  { return nil }

func (h *house) automations() *automation.Desk {
	return automation.New(automation.Config{Store: h.store, Agents: noAgents{}, Owner: "house", AgentID: agents.ReservedID})
}
