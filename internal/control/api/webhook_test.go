package api

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/outbound"
	"aloft/internal/control/store"
	"aloft/internal/policy"
)

// outbound returns a client that may reach the test's servers on loopback.
func (h *house) outbound() *outbound.Client {
	h.t.Helper()
	c, err := outbound.New(policy.Network{Open: []string{"127.0.0.1"}})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

const (
	hookURL = "https://hooks.example.com/T0/a-secret-of-the-path"
	hookKey = "0123456789abcdef0123456789abcdef"
	hooked  = `{"prompt":{"text":"x"},"webhook":{"url":"` + hookURL + `","secret":"` + hookKey + `"}}`
)

// deliveryOf creates a delivery for the agent's run and returns its id, if the
// route needs one.
func (h *house) deliveryOf(id, runID, route string) string {
	h.t.Helper()
	if !strings.Contains(route, "{deliveryId}") {
		return ""
	}
	sealed, err := h.safe.SealWebhook(h.t.Context(), id, hookURL, hookKey)
	if err == nil {
		err = h.store.PutSecret(h.t.Context(), sealed)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.append(id, runID, &agent.RunEnded{Status: agent.Failed})
	list, err := h.store.Deliveries(h.t.Context(), id, store.Page{Limit: 1})
	if err != nil || len(list) != 1 {
		h.t.Fatalf("deliveries %v, %v", list, err)
	}
	return list[0].ID
}

// A /v0 webhook gets only the one event that /v0 defines.
func TestWhatAWebhookHears(t *testing.T) {
	for _, row := range []struct{ path, body, id string }{
		{"/v0/agents", `{"prompt":{"text":"x"},"source":{"repository":"https://git.example.com/o/r"},"webhook":{"url":"` + hookURL + `"}}`, "id"},
		{"/v1/agents", `{"prompt":{"text":"x"},"webhook":{"url":"` + hookURL + `","events":["statusChange"]}}`, "agent.id"},
	} {
		h := newHouse(t)
		id := h.want(h.call("POST", row.path, row.body), 201).text(t, row.id)
		runID := h.want(h.call("GET", "/v1/agents/"+id, ""), 200).text(t, "latestRunId")
		h.append(id, runID, &agent.ApprovalAsked{Approval: agent.Approval{ID: agent.NewApprovalID(), RunID: runID}})
		h.append(id, runID, &agent.RunEnded{Status: agent.Failed})
		list, err := h.store.Deliveries(t.Context(), id, store.Page{Limit: 9})
		if err != nil || len(list) != 1 || list[0].Event != store.StatusChange {
			t.Errorf("%s: %+v, %v", row.path, list, err)
		}
	}
}

func TestDeliveriesOverREST(t *testing.T) {
	h := newHouse(t)
	a := h.want(h.call("POST", "/v1/agents", hooked), 201)
	id, runID := a.text(t, "agent.id"), a.text(t, "run.id")
	path := "/v1/agents/" + id + "/webhook-deliveries"
	if items := h.want(h.call("GET", path, ""), 200).get(t, "items").([]any); len(items) != 0 {
		t.Errorf("before the run has ended: %v", items)
	}
	if hook, err := h.safe.Webhook(t.Context(), id); err != nil || hook.URL != hookURL || hook.Secret != hookKey {
		t.Errorf("kept %v, %v", hook, err)
	}
	for range 3 {
		h.append(id, runID, &agent.RunEnded{Status: agent.Finished})
		next := h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"y"}}`)
		runID = next.text(t, "run.id")
	}
	first := h.want(h.call("GET", path+"?limit=2", ""), 200)
	last := h.want(h.call("GET", path+"?limit=2&cursor="+first.text(t, "nextCursor"), ""), 200)
	items := append(first.get(t, "items").([]any), last.get(t, "items").([]any)...)
	if len(items) != 3 || strings.Contains(string(last.body), "nextCursor") {
		t.Fatalf("%s %s", first.body, last.body)
	}
	one := items[0].(map[string]any)
	if one["state"] != "pending" || one["attempts"] != 0. || one["nextAttemptAt"] == nil {
		t.Errorf("a delivery is %v", one)
	}
	h.want(h.call("POST", path+"/"+one["id"].(string)+"/replay", ""), 200)
	h.want(h.call("POST", path+"/nothing/replay", ""), 404)
	h.want(h.callAs(bensKey, "POST", path+"/"+one["id"].(string)+"/replay", ""), 404)
	all := string(first.body) + string(h.call("GET", "/v1/agents/"+id+"/events", "").body) + string(h.call("GET", "/v1/secrets", "").body) + h.log.String()
	if strings.Contains(all, hookKey) || strings.Contains(all, "a-secret-of-the-path") {
		t.Error("the webhook's secret or address is shown")
	}
}

func TestImagesByURL(t *testing.T) {
	h := newHouse(t)
	picture := "\x89PNG\r\n\x1a\n the first"
	var gone atomic.Bool
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case gone.Load():
			http.NotFound(w, r)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/there", http.StatusFound)
		case r.URL.Path == "/inside":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		case r.URL.Path == "/page":
			_, _ = w.Write([]byte("<html>"))
		default:
			_, _ = w.Write([]byte(picture))
		}
	}))
	defer far.Close()
	inline := base64.StdEncoding.EncodeToString([]byte(picture))
	body := `{"prompt":{"text":"x","images":[{"url":"` + far.URL + `/moved"},{"data":"` + inline + `","mimeType":"image/png"}]}}`
	made := h.want(h.call("POST", "/v1/agents", body, "Idempotency-Key", "k"), 201)
	id := made.text(t, "agent.id")
	events, err := h.store.Read(t.Context(), id, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if b := events[0].Body.(*agent.RunCreated).Prompt.Blocks; len(b) != 3 || string(b[1].Image.Data) != picture || b[1].Image.MediaType != "image/png" {
		t.Errorf("journaled %v", b)
	}
	for path, code := range map[string]string{"/inside": "address_blocked", "/page": "validation_error"} {
		a := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x","images":[{"url":"`+far.URL+path+`"}]}}`), 400)
		if a.text(t, "error.code") != code {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	old := h.want(h.call("POST", "/v0/agents", `{"prompt":{"text":"x","images":[{"url":"`+far.URL+`/a"}]},"source":{"repository":"https://h/a"}}`), 201)
	if events, err := h.store.Read(t.Context(), old.text(t, "id"), 1, 1); err != nil || string(events[0].Body.(*agent.RunCreated).Prompt.Blocks[1].Image.Data) != picture {
		t.Errorf("v0: %v, %v", events, err)
	}

	// A repeated request gets the first reply, even if the image URL now
	// returns another image.
	picture = "\x89PNG\r\n\x1a\n another"
	again := h.want(h.call("POST", "/v1/agents", body, "Idempotency-Key", "k"), 201)
	gone.Store(true)
	third := h.want(h.call("POST", "/v1/agents", body, "Idempotency-Key", "k"), 201)
	if string(again.body) != string(made.body) || string(third.body) != string(made.body) {
		t.Errorf("%s\n%s\n%s", made.body, again.body, third.body)
	}
	h.append(id, made.text(t, "run.id"), finish())
	next := `{"prompt":{"text":"y","images":[{"url":"` + far.URL + `/b"}]}}`
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", next, "Idempotency-Key", "k2"), 400)
	gone.Store(false)
	run := h.want(h.call("POST", "/v1/agents/"+id+"/runs", next, "Idempotency-Key", "k2"), 201)
	gone.Store(true)
	if a := h.want(h.call("POST", "/v1/agents/"+id+"/runs", next, "Idempotency-Key", "k2"), 201); string(a.body) != string(run.body) {
		t.Errorf("%s, %s", a.body, run.body)
	}
}
