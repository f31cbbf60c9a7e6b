package api

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/conversation"
)

const then = `{"prompt":{"text":"then this"}}`

// turnsOf journals the events that the route shows or removes, and returns the
// sequence number of the last event.
func (h *house) turnsOf(id, runID, route string) string {
	var body agent.Body
	switch {
	case strings.Contains(route, "/images/"):
		body = &agent.CallDone{CallID: "c", Images: []conversation.Image{{MediaType: "image/png", Data: pixel}}}
	case strings.HasSuffix(route, "/queue/{runId}"):
		body = &agent.Queued{RunID: runID}
	default:
		return ""
	}
	return strconv.FormatInt(h.append(id, runID, body)[0].Seq, 10)
}

// pixel is a PNG of one pixel.
var pixel, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

func TestQueue(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	path := "/v1/agents/" + id + "/queue"
	first := h.want(h.call("POST", path, then, "Idempotency-Key", "k"), 201)
	again := h.want(h.call("POST", path, then, "Idempotency-Key", "k"), 201)
	if first.get(t, "started") != false || first.text(t, "runId") != again.text(t, "runId") {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	next := first.text(t, "runId")
	gone := h.want(h.call("POST", path, `{"prompt":{"text":"not that"}}`), 201).text(t, "runId")
	h.want(h.call("DELETE", path+"/"+gone, ""), 200)
	h.want(h.call("DELETE", path+"/"+gone, ""), 404)
	list := h.want(h.call("GET", path, ""), 200)
	if !strings.Contains(string(list.body), `"text":"then this"`) || strings.Contains(string(list.body), "not that") {
		t.Errorf("it waits: %s", list.body)
	}
	h.append(id, runID, finish())
	// Queued prompts are sent before a new one, even if none has been started.
	h.want(h.call("POST", path, `{"prompt":{"text":"the last"}}`), 201)
	if s := h.folded(id); s.Run.ID != next || s.Asked[len(s.Asked)-1] != "then this" || len(s.Agent.Queue) != 1 {
		t.Errorf("%s works on %q, and %v waits", s.Run.ID, s.Asked, s.Agent.Queue)
	}
	repeated := h.want(h.call("POST", path, then, "Idempotency-Key", "k"), 201)
	if repeated.get(t, "started") != true || repeated.text(t, "runId") != next {
		t.Errorf("a repetition: %s", repeated.body)
	}
	h.want(h.call("POST", path, `{"prompt":{"text":"other"}}`, "Idempotency-Key", "k"), 409)
	for range 19 {
		h.want(h.call("POST", path, then), 201)
	}
	if full := h.want(h.call("POST", path, then), 409); full.text(t, "error.code") != "queue_full" {
		t.Errorf("%s", full.body)
	}
}

func TestQueueOfTheArchived(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	h.want(h.call("POST", "/v1/agents/"+id+"/queue", then), 201)
	h.want(h.call("POST", "/v1/agents/"+id+"/archive", ""), 200)
	h.append(id, runID, &agent.RunEnded{Status: agent.Cancelled})
	h.want(h.call("POST", "/v1/agents/"+id+"/queue", then), 409)
	h.want(h.call("POST", "/v1/agents/"+id+"/unarchive", ""), 200)
	if s := h.folded(id); len(s.Agent.Queue) != 0 || s.Run.Status != agent.Creating {
		t.Errorf("%v waits, and the run is %s", s.Agent.Queue, s.Run.Status)
	}
}

func TestRetry(t *testing.T) {
	h := newHouse(t)
	id := h.forkable()
	path := "/v1/agents/" + id + "/retry"
	said := func() string {
		var out []string
		for _, m := range h.folded(id).Messages {
			for _, b := range m.Blocks {
				out = append(out, b.Text[:min(8, len(b.Text))])
			}
		}
		return strings.Join(out, "|")
	}
	made := h.want(h.call("POST", path, "{}", "Idempotency-Key", "k"), 201)
	if said() != "begin|first wo|The user|again" || made.get(t, "replaced") != 1.0 || made.get(t, "turn") != 2.0 {
		t.Errorf("%s, said %s", made.body, said())
	}
	if again := h.want(h.call("POST", path, "{}", "Idempotency-Key", "k"), 201); again.text(t, "run.id") != made.text(t, "run.id") {
		t.Errorf("a repetition made %s", again.body)
	}
	h.want(h.call("POST", path, "{}"), 409) // the agent is working
	h.append(id, made.text(t, "run.id"), finish())
	if gone := h.want(h.call("POST", path, `{"turn":2}`), 409); gone.text(t, "error.code") != "turn_replaced" {
		t.Errorf("%s", gone.body)
	}
	edited := h.want(h.call("POST", path, `{"turn":1,"prompt":{"text":"begin so"}}`), 201)
	if said() != "The user|begin so" || edited.get(t, "replaced") != 1.0 {
		t.Errorf("%s, said %s", edited.body, said())
	}
	h.append(id, edited.text(t, "run.id"), finish())
	h.want(h.call("POST", path, `{"model":{"id":"none"}}`), 400)
	other := h.want(h.call("POST", path, `{"model":{"id":"other"}}`), 201)
	if got := h.folded(id).Agent.Model; got != "other" {
		t.Errorf("after a retry with another model the agent has %q", got)
	}
	h.append(id, other.text(t, "run.id"), finish())
	h.want(h.call("POST", path, `{"turn":9}`), 400)
	h.want(h.call("POST", path, `{"turn":1,"runId":"run-1"}`), 400)
	h.want(h.call("POST", path, `{"runId":"run-1"}`), 404)
}

func TestEventImage(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	at := h.append(id, runID, &agent.CallDone{CallID: "c", Images: []conversation.Image{{MediaType: "image/svg+xml", Data: []byte("<svg/>")}, {MediaType: "image/png", Data: pixel}}})[0].Seq
	path := "/v1/agents/" + id + "/events/" + strconv.FormatInt(at, 10) + "/images/"
	h.want(h.call("GET", path+"0", ""), 404) // the server does not return a document that may contain scripts
	h.want(h.call("GET", path+"2", ""), 404)
	h.want(h.call("GET", path+"-1", ""), 404)
	h.want(h.callAs(bensKey, "GET", path+"1", ""), 404)
	got := h.want(h.call("GET", path+"1", ""), 200)
	if !slices.Equal(got.body, pixel) || got.header.Get("Content-Type") != "image/png" || got.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(got.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%v", got.header)
	}
}
