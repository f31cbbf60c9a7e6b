package api

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/store"
)

// A repeated POST has no second effect and gets the first reply, even after a
// restart. The stored reply is encrypted.
func TestRepeatedRequestGetsTheFirstReplyAgain(t *testing.T) {
	h := newHouse(t)
	const path = "/v1/me/keys"
	keys := func() int {
		return len(h.want(h.call("GET", path, ""), 200).get(t, "items").([]any))
	}
	again := func(body, key string, want int) answer {
		return h.want(h.call("POST", path, body, "Idempotency-Key", key), want)
	}
	before := keys()
	first := again(`{"name":"ci"}`, "k1", 201)
	h.restart()
	repeated := again(`{"name":"ci"}`, "k1", 201)
	if string(repeated.body) != string(first.body) || repeated.header.Get("Content-Type") != "application/json" || keys() != before+1 {
		t.Errorf("first %s, again %s; %d keys, want %d", first.body, repeated.body, keys(), before+1)
	}
	if a := again(`{"name":"other"}`, "k1", 409); a.text(t, "error.code") != "idempotency_key_reused" {
		t.Errorf("another request: %s", a.body)
	}
	again(`{"name":""}`, "k2", 400) // the server handles a request again if the first attempt failed
	again(`{"name":"mended"}`, "k2", 201)
	again(`{"name":"x"}`, strings.Repeat("k", 256), 400)
	if a := again(`{"name":"ci"}`, "k3", 201); string(a.body) == string(first.body) {
		t.Error("another key gets the same reply")
	}
	h.want(h.callAs(bensKey, "POST", path, `{"name":"ci"}`, "Idempotency-Key", "k1"), 201)
	if n := keys(); n != before+3 {
		t.Errorf("%d keys, want %d", n, before+3)
	}
	if log := h.want(h.call("GET", "/v1/audit", ""), 200); strings.Count(string(log.body), `"createKey"`) != 7 {
		t.Errorf("the audit has what was not done: %s", log.body)
	}

	// Cancelling a run again succeeds, in both versions of the API.
	id, runID := h.begin()
	for _, stop := range []string{"/v1/agents/" + id + "/runs/" + runID + "/cancel", "/v0/agents/" + id + "/stop"} {
		h.want(h.call("POST", stop, "", "Idempotency-Key", "s"), 200)
		h.want(h.call("POST", stop, "", "Idempotency-Key", "s"), 200)
	}
	if n, err := h.store.ForgetReplies(t.Context(), time.Now()); err != nil || n != 6 {
		t.Errorf("%d replies were kept, %v; want 6", n, err)
	}
}

// A gate admits one lookup of a reply at a time.
type gate struct {
	store.Replies
	asked chan struct{}
}

func (g gate) Reply(ctx context.Context, id [32]byte) (store.Reply, error) {
	g.asked <- struct{}{}
	return g.Replies.Reply(ctx, id)
}

// Repeats that arrive while the first request is in progress wait for its
// reply.
func TestRepeatedAtOnce(t *testing.T) {
	h := newHouse(t)
	asked := make(chan struct{})
	h.api.config.Replies = gate{h.store, asked}
	const many = 8
	replies := make([]answer, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			replies[i] = h.call("POST", "/v1/me/keys", `{"name":"ci"}`, "Idempotency-Key", "k")
		})
	}
	replied := make(chan struct{})
	go func() {
		all.Wait()
		close(replied)
	}()
	for range many { // the gate admits the lookups one at a time
		select {
		case <-asked:
		case <-replied:
			t.Fatal("not every request asked")
		}
	}
	<-replied
	for _, a := range replies {
		if a.status != http.StatusCreated || string(a.body) != string(replies[0].body) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	keys, err := h.store.Keys(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, k := range keys {
		if k.Kind == account.Lasting && k.Name == "ci" {
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d keys were made", made)
	}
}

func TestBodies(t *testing.T) {
	h := newHouse(t)
	h.want(h.call("POST", "/v1/agents", "\xef\xbb\xbf"+task), 201)
	h.want(h.call("POST", "/v1/agents", task, "Content-Type", "text/plain"), 201)
	h.want(h.call("POST", "/v1/agents", task, "Content-Encoding", "identity"), 201)
	for path, code := range map[string]string{"/v1/agents": "error.code", "/v0/agents": "error"} {
		if a := h.want(h.call("POST", path, task, "Content-Encoding", "gzip"), 415); a.text(t, code) != "unsupported_media_type" {
			t.Errorf("%s", a.body)
		}
	}
}
