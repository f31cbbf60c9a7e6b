package api

import (
	"strings"
	"testing"

	"aloft/internal/agent"
)

// What the filters leave is the store's to test; here is whose agents they may be
// asked of, and what is refused.
func TestFindAgents(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	h.append(id, runID, &agent.RunStarted{})
	bens := h.want(h.callAs(bensKey, "POST", "/v1/agents", task), 201).text(t, "agent.id")
	for _, tt := range []struct{ key, query, want string }{
		{annsKey, "", id},
		{annsKey, "all=true", bens + " " + id},
		{annsKey, "user=2", bens},
		{viewersKey, "user=2", bens},
		{bensKey, "all=true", bens},
		{bensKey, "user=2", bens},
		{annsKey, "all=true&search=FAILING+o/r", bens + " " + id},
		{annsKey, "all=true&search=nothing+o/r", ""},
		{annsKey, "repository=O/R&status=working,+failed", id},
		{annsKey, "repository=x/r", ""},
		{annsKey, "status=needs-you", ""},
		{annsKey, "status=archived", ""},
		{annsKey, "from=2000-01-01&to=2199-12-31", id},
		{annsKey, "to=2000-01-01T00:00:00%2B02:00", ""},
	} {
		a := h.want(h.callAs(tt.key, "GET", "/v1/agents?"+tt.query, ""), 200)
		var got []string
		for _, one := range a.get(t, "items").([]any) {
			got = append(got, one.(map[string]any)["id"].(string))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s of %s: %v, want %s", tt.query, tt.key, got, tt.want)
		}
	}
	h.want(h.callAs(bensKey, "GET", "/v1/agents?user=1", ""), 403)
	for _, bad := range []string{"user=x", "user=0", "status=sleepy", "status=done,failed", "from=yesterday", "to=1600-01-01T00:00:00Z", "search=" + strings.Repeat("x", 201), "repository=" + strings.Repeat("x", 201)} {
		name, _, _ := strings.Cut(bad, "=")
		if a := h.want(h.call("GET", "/v1/agents?"+bad, ""), 400); !strings.Contains(a.text(t, "error.message"), name) {
			t.Errorf("%s: %s", bad, a.body)
		}
	}
}
