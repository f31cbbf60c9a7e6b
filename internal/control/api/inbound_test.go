package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/inbound"
	"aloft/internal/control/store"
)

const hookSecret = "a secret of the connection acme"

func (h *house) inbox() *inbound.Inbox {
	return inbound.NewInbox(inbound.Config{Store: h.store, Connections: []inbound.Connection{{Name: "acme", Source: "github", Host: "github.com", Secret: hookSecret}}})
}

// eventOf stores an event and returns its id, if the route acts on an event.
func (h *house) eventOf(route string) string {
	h.t.Helper()
	if !strings.Contains(route, "{eventId}") {
		return ""
	}
	delivery := fmt.Sprint(time.Now().UnixNano())
	e := store.InboundEvent{ID: store.InboundID("github", "acme", delivery), Source: "github", Connection: "acme", Delivery: delivery, Kind: "ping", ReceivedAt: time.Now(), Body: []byte("{}")}
	if _, err := h.store.AddInbound(h.t.Context(), e); err != nil {
		h.t.Fatal(err)
	}
	return e.ID
}

func hookHeaders(delivery, body string) []string {
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(body))
	return []string{"Content-Type", "application/json", "X-GitHub-Event", "ping", "X-GitHub-Delivery", delivery,
		"X-Hub-Signature-256", "sha256=" + hex.EncodeToString(mac.Sum(nil))}
}

// The server stores an event once, lists it and can replay it. It does not
// store an event that is unsigned, too large or for another connection.
func TestEventsAreReceivedListedAndReplayed(t *testing.T) {
	h := newHouse(t)
	const body = `{"zen":"Keep it logically awesome."}`
	for _, tt := range []struct {
		path, body string
		header     []string
		want       int
	}{
		{"/hooks/github/acme", body, hookHeaders("d1", body), http.StatusAccepted},
		{"/hooks/github/acme", body, hookHeaders("d1", body), http.StatusAccepted},
		{"/hooks/github/acme", body, append(hookHeaders("d2", body), "Idempotency-Key", "with spaces: no key of this API"), http.StatusAccepted},
		{"/hooks/github/acme", body + " ", hookHeaders("d3", body), http.StatusUnauthorized},
		{"/hooks/github/acme", body, []string{"X-GitHub-Delivery", "d4"}, http.StatusUnauthorized},
		{"/hooks/github/other", body, hookHeaders("d5", body), http.StatusNotFound},
		{"/hooks/github/acme/", body, hookHeaders("d6", body), http.StatusNotFound},
		{"/hooks/svn/acme", body, hookHeaders("d7", body), http.StatusNotFound},
		{"/hooks/github/acme", strings.Repeat(" ", 4<<20+1), hookHeaders("d8", body), http.StatusRequestEntityTooLarge},
		{"/hooks/generic/acme", strings.Repeat(" ", 256<<10+1), hookHeaders("d9", body), http.StatusRequestEntityTooLarge},
	} {
		if a := h.callAs("", "POST", tt.path, tt.body, tt.header...); a.status != tt.want {
			t.Errorf("%s %v: %d, want %d: %s", tt.path, tt.header, a.status, tt.want, a.body)
		}
	}
	if a := h.callAs("", "POST", "/hooks/github/acme", body); !strings.Contains(string(a.body), "signature_invalid") || !strings.Contains(string(a.body), "secret of the connection acme") {
		t.Errorf("the refusal does not say what to do: %s", a.body)
	}
	for n := 0; h.api.receiving.begin("192.0.2.1"); n++ { // slow requests from one address
		if n >= maxReceiving/2 {
			t.Fatal("one address may take more than half of the room")
		}
	}
	for i := range 3 * maxReceivingFrom {
		if h.api.receiving.begin(fmt.Sprintf("2001:db8::%x", i)) && i >= maxReceivingFrom {
			t.Fatal("a network with many addresses counts as many")
		}
	}
	if a := h.callAs("", "POST", "/hooks/github/acme", body, hookHeaders("d2", body)...); a.status != http.StatusAccepted {
		t.Errorf("while others are slow: %d %s", a.status, a.body)
	}
	for i := 0; i < maxReceiving; i++ {
		h.api.receiving.begin(fmt.Sprint("another ", i))
	}
	if a := h.callAs("", "POST", "/hooks/github/acme", body, hookHeaders("d10", body)...); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("too many at once: %d %s", a.status, a.body)
	}
	h.api.receiving = receiving{}
	list := h.want(h.callAs(adminsKey, "GET", "/v1/events?limit=1", ""), 200)
	items := list.get(t, "items").([]any)
	if len(items) != 1 {
		t.Fatalf("%s", list.body)
	}
	first := items[0].(map[string]any)
	if first["delivery"] != "d2" || first["state"] != "queued" || first["replayable"] != true || first["nextAttemptAt"] == nil || first["kind"] != "ping" {
		t.Errorf("%v", first)
	}
	next := h.want(h.callAs(adminsKey, "GET", "/v1/events?limit=1&cursor="+list.text(t, "nextCursor"), ""), 200)
	if second := next.get(t, "items").([]any)[0].(map[string]any); second["delivery"] != "d1" {
		t.Errorf("%v", second)
	}
	if all := h.want(h.callAs(adminsKey, "GET", "/v1/events?state=failed", ""), 200).get(t, "items").([]any); len(all) != 0 {
		t.Errorf("%v", all)
	}
	h.want(h.callAs(adminsKey, "GET", "/v1/events?state=lost", ""), 400)
	id := first["id"].(string)
	claimed, err := h.store.ClaimInbound(t.Context(), "a", time.Hour, 10)
	if err != nil || len(claimed) != 2 {
		t.Fatalf("%+v, %v", claimed, err)
	}
	for _, e := range claimed {
		e.State, e.Reason = store.InboundIgnored, "a reason"
		if err := h.store.PutInbound(t.Context(), "a", e); err != nil {
			t.Fatal(err)
		}
	}
	if all := h.want(h.callAs(adminsKey, "GET", "/v1/events?state=ignored", ""), 200).get(t, "items").([]any); len(all) != 2 || all[0].(map[string]any)["reason"] != "a reason" {
		t.Errorf("%v", all)
	}
	h.want(h.callAs(adminsKey, "POST", "/v1/events/"+id+"/replay", ""), 200)
	if all := h.want(h.callAs(adminsKey, "GET", "/v1/events?state=queued", ""), 200).get(t, "items").([]any); len(all) != 1 || all[0].(map[string]any)["id"] != id {
		t.Errorf("%v", all)
	}
	h.want(h.callAs(adminsKey, "POST", "/v1/events/evt-none/replay", ""), 404)
	if err := h.store.PutInbound(t.Context(), "", store.InboundEvent{ID: id, State: store.InboundDone}); err != nil {
		t.Fatal(err)
	}
	if err := h.store.TrimInbound(t.Context(), time.Now(), time.Time{}, 1<<30); err != nil {
		t.Fatal(err)
	}
	h.want(h.callAs(adminsKey, "POST", "/v1/events/"+id+"/replay", ""), 410)
}
