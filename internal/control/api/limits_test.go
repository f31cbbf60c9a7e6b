package api

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
)

func TestSubTokens(t *testing.T) {
	h := newHouse(t)
	a := h.want(h.call("POST", "/v1/sub-tokens", `{"forUserEmail":"Bens@example.com"}`), 200)
	token := a.text(t, "accessToken")
	if me := h.want(h.callAs(token, "GET", "/v1/me", ""), 200); me.text(t, "userEmail") != "bens@example.com" || a.get(t, "userId") != 2. {
		t.Errorf("%s speaks for %s", a.body, me.body)
	}
	if until, err := time.Parse(time.RFC3339, a.text(t, "expiresAt")); err != nil || time.Until(until) > time.Hour || time.Until(until) < time.Hour/2 {
		t.Errorf("good until %v, %v", until, err)
	}
	id, _ := h.begin()
	h.want(h.callAs(token, "GET", "/v1/agents/"+id, ""), 404)
	h.want(h.callAs(token, "POST", "/v1/sub-tokens", `{"forUserId":2}`), 403)
	h.want(h.callAs(bensKey, "POST", "/v1/sub-tokens", `{"forUserId":2}`), 403)
	own := h.want(h.call("POST", "/v1/sub-tokens", `{"forUserId":1}`), 200).text(t, "accessToken")
	h.want(h.callAs(own, "GET", "/v1/agents/"+id, ""), 200)
	h.want(h.callAs(own, "POST", "/v1/sub-tokens", `{"forUserId":1}`), 403)
	for body, status := range map[string]int{
		`{}`: 400, `{"forUserId":1,"forUserEmail":"a@b.c"}`: 400, `{"forUserEmail":""}`: 400, `{"forUserId":"1"}`: 400,
		`{"forUserId":99}`: 404, `{"forUserId":-1}`: 404, `{"forUserEmail":"nobody@example.com"}`: 404,
	} {
		h.want(h.call("POST", "/v1/sub-tokens", body), status)
	}
	_, err := h.store.AddKey(t.Context(), account.APIKey{UserID: 2, Hash: account.HashKey("aloft_old"), ExpiresAt: time.Now().Add(time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the token expires", func() bool { return h.callAs("aloft_old", "GET", "/v1/me", "").status == 401 })
}

func TestRateLimit(t *testing.T) {
	h := newHouse(t)
	clock := time.Unix(1_000_000, 0)
	h.api.limiter.PerMinute, h.api.limiter.Now = 3, func() time.Time { return clock }
	get := func(key, path string, status int, left string) http.Header {
		t.Helper()
		a := h.want(h.callAs(key, "GET", path, ""), status)
		if got := a.header.Get("X-RateLimit-Remaining"); got != left {
			t.Errorf("%s is left, want %s", got, left)
		}
		return a.header
	}
	for left := 2; left >= 0; left-- {
		get(annsKey, "/v1/me", 200, strconv.Itoa(left))
	}
	head := get(annsKey, "/v1/me", 429, "0")
	if head.Get("Retry-After") != "20" || head.Get("X-RateLimit-Limit") != "3" || head.Get("X-RateLimit-Reset") != "1000060" {
		t.Errorf("headers %v", head)
	}
	if a := h.want(h.call("GET", "/v0/me", ""), 429); a.text(t, "error") != "rate_limit_exceeded" {
		t.Errorf("%s", a.body)
	}
	second := h.want(h.callAs(bensKey, "POST", "/v1/me/keys", `{"name":"second"}`), 201).text(t, "key")
	get(bensKey, "/v1/me", 200, "1")   // another user
	get(second, "/v1/me", 200, "0")    // another key of that user
	get(annsKey, "/healthz", 200, "")  // not counted
	get("aloft_no", "/v1/me", 401, "") // not counted: an invalid key
	clock = clock.Add(20 * time.Second)
	get(annsKey, "/v1/me", 200, "0")
	get(annsKey, "/v1/me", 429, "0")
	clock = clock.Add(time.Hour)
	get(annsKey, "/v1/me", 200, "2")
	h.api.limiter.PerMinute = 0
	get(annsKey, "/v1/me", 200, "")
}

// TestKeysAreLimited checks that a user cannot create any number of keys, and that
// deleting one makes room.
func TestKeysAreLimited(t *testing.T) {
	h := newHouse(t)
	create := func(status int) answer {
		t.Helper()
		return h.want(h.callAs(bensKey, "POST", "/v1/me/keys", `{"name":"x"}`), status)
	}
	var last answer
	for range 99 { // the user has one already
		last = create(201)
	}
	if a := create(429); a.text(t, "error.code") != "usage_limit_exceeded" {
		t.Errorf("%s", a.body)
	}
	h.want(h.callAs(bensKey, "DELETE", fmt.Sprintf("/v1/me/keys/%.0f", last.get(t, "id")), ""), 204)
	create(201)
	h.want(h.call("POST", "/v1/me/keys", `{"name":"x"}`), 201) // another user
}

// A /v0 request counts once, even if it causes several /v1 requests.
func TestLegacyCountsOnce(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	h.append(id, runID, &agent.RunEnded{Status: agent.Finished})
	h.api.limiter.PerMinute = 1
	h.want(h.call("GET", "/v0/agents/"+id, ""), 200)
}
