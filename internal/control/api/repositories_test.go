package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// credentialsSee lists the repositories that the server's credentials can
// access.
type credentialsSee []string

func (c credentialsSee) Repositories(context.Context) []string { return c }

func (a answer) urls(t *testing.T, list, field string) (out []string) {
	t.Helper()
	for _, v := range a.get(t, list).([]any) {
		out = append(out, v.(map[string]any)[field].(string))
	}
	return out
}

// Users see only the repositories on which they may run agents.
func TestRepositories(t *testing.T) {
	h := newHouse(t)
	h.api.agents.Listing.PerMinute = 0
	h.api.agents.Repositories = credentialsSee{"https://git.example.com/open/a", "https://git.example.com/open/b", "https://git.example.com/shut/c"}
	const prompt = `{"prompt":{"text":"x"},"repos":[{"url":"`
	h.want(h.callAs(bensKey, "POST", "/v1/agents", prompt+`https://git.example.com/open/b.git"}]}`), 201)
	h.want(h.callAs(bensKey, "POST", "/v1/agents", prompt+`git@git.example.com:shut/ben.git"}]}`), 201)
	h.want(h.call("POST", "/v1/agents", prompt+`https://git.example.com/open/anns"}]}`), 201)
	want := func(key string, wants ...string) {
		t.Helper()
		got := h.want(h.callAs(key, "GET", "/v1/repositories", ""), 200).urls(t, "items", "url")
		if !slices.Equal(got, wants) {
			t.Errorf("%s sees %q\nwant %q", key, got, wants)
		}
		if old := h.want(h.callAs(key, "GET", "/v0/repositories", ""), 200).urls(t, "repositories", "repository"); !slices.Equal(old, wants) {
			t.Errorf("/v0 shows %s %q", key, old)
		}
	}
	const a, b, c = "https://git.example.com/open/a", "https://git.example.com/open/b", "https://git.example.com/shut/c"
	want(bensKey, "ssh://git@git.example.com/shut/ben.git", "https://git.example.com/open/b.git", a, c)
	want(annsKey, "https://git.example.com/open/anns", a, b, c)
	want(viewersKey) // viewers cannot run agents

	h.want(h.callAs(adminsKey, "PATCH", "/v1/repository-access", `{"mode":"allow-list","everyone":["git.example.com/open/a"],"members":[{"userId":2,"repositories":["git.example.com/open/b"]}]}`), 200)
	want(bensKey, "https://git.example.com/open/b.git", a)
	want(adminsKey, a, b, c)
	h.want(h.call("PATCH", "/v1/repository-access", `{"everyone":[],"members":[{"userId":2,"repositories":[]}]}`), 200)
	want(bensKey)
}

// The limit applies to all keys of a user and to both versions of the API.
func TestRepositoriesAreLimited(t *testing.T) {
	h := newHouse(t)
	now := time.Unix(1e9, 0)
	h.api.agents.Listing.Now = func() time.Time { return now }
	for n := range 10 {
		h.want(h.callAs(bensKey, "GET", []string{"/v1/repositories", "/v0/repositories"}[n%2], ""), 200)
	}
	for _, path := range []string{"/v1/repositories", "/v0/repositories"} {
		a := h.want(h.callAs(bensKey, "GET", path, ""), http.StatusTooManyRequests)
		if !strings.Contains(string(a.body), "rate_limit_exceeded") || a.header.Get("Retry-After") != "6" || a.header.Get("X-RateLimit-Remaining") != "0" || a.header.Get("X-RateLimit-Reset") == "" {
			t.Errorf("%s: %s %v", path, a.body, a.header)
		}
	}
	h.want(h.call("GET", "/v1/repositories", ""), 200) // another user
	now = now.Add(time.Minute / 10)
	h.want(h.callAs(bensKey, "GET", "/v1/repositories", ""), 200)
	h.want(h.callAs(bensKey, "GET", "/v1/repositories", ""), http.StatusTooManyRequests)
}
