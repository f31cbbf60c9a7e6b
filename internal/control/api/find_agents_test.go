package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
)

// The test checks whose agents each user may list, and which queries are
// rejected. The store's tests cover the filters.
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
	for _, bad := range []string{"user=x", "user=0", "status=sleepy", "status=done,failed", "order=age", "from=yesterday", "to=1600-01-01T00:00:00Z", "search=" + strings.Repeat("x", 201), "repository=" + strings.Repeat("x", 201)} {
		name, _, _ := strings.Cut(bad, "=")
		if a := h.want(h.call("GET", "/v1/agents?"+bad, ""), 400); !strings.Contains(a.text(t, "error.message"), name) {
			t.Errorf("%s: %s", bad, a.body)
		}
	}
}

// An agent that waits for an answer is on the first page, however many newer
// agents there are. The order is consistent across pages.
func TestAgentsThatAskComeFirst(t *testing.T) {
	h := newHouse(t)
	asks, runID := h.begin()
	h.asks(asks, runID, "Shell", "npm test")
	failed, runID := h.begin()
	h.append(failed, runID, &agent.RunEnded{Status: agent.Failed, Failure: &agent.Failure{Code: "internal"}})
	newest, _ := h.begin()
	walk := func(query string) (got []string) {
		for cursor := ""; ; {
			a := h.want(h.call("GET", "/v1/agents?limit=1&"+query+cursor, ""), 200)
			for _, one := range a.get(t, "items").([]any) {
				got = append(got, one.(map[string]any)["id"].(string))
			}
			next := ""
			if strings.Contains(string(a.body), `"nextCursor"`) {
				next = a.text(t, "nextCursor")
			}
			if next == "" {
				return got
			}
			if other := h.call("GET", "/v1/agents?cursor="+next, ""); strings.Contains(query, "order=asks") && other.status != 400 {
				t.Errorf("a cursor of asks-first is taken by the order newest: %d", other.status)
			}
			cursor = "&cursor=" + next
		}
	}
	for query, want := range map[string][]string{
		"":                               {newest, failed, asks},
		"order=newest":                   {newest, failed, asks},
		"order=asks-first":               {asks, newest, failed},
		"order=asks-first&all=true":      {asks, newest, failed},
		"order=asks-first&search=no":     nil,
		"order=asks-first&status=failed": {failed},
		"status=asks":                    {asks},
		"status=failed":                  {failed},
		"status=needs-you":               {failed, asks},
		"order=asks-first&status=needs-you,working": {asks, newest, failed},
	} {
		if got := walk(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	shown := h.want(h.call("GET", "/v1/agents?status=asks", ""), 200).get(t, "items").([]any)[0].(map[string]any)
	if since, _ := shown["waitingSince"].(string); since == "" {
		t.Errorf("it waits since %v", shown["waitingSince"])
	}
	for _, bad := range []string{"order=asks-first&cursor=x", "order=asks-first&cursor=" + rest.Cursor(rest.AskingList, time.Now(), "elsewhere 1 bc"), "order=asks-first&cursor=" + rest.Cursor(rest.AskingList, time.Now(), "asks soon bc"), "order=asks-first&cursor=" + rest.Cursor(rest.AskingList, time.Now(), "asks")} {
		h.want(h.call("GET", "/v1/agents?"+bad, ""), 400)
	}
}
