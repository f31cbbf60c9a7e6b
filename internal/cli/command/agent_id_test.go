package command

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aloft/internal/cli"
)

// TestAgentID finds agents by id, by an id's beginning and by name. The
// stand-in server returns all agents, because the real server's search also
// finds other agents.
func TestAgentID(t *testing.T) {
	const one, two = "bc-11111111-2222-3333-4444-555555555555", "bc-11112222-2222-3333-4444-555555555555"
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/v1/agents" || r.URL.Query().Get("search") == "" {
			t.Errorf("request of %s", r.URL)
		}
		_, _ = w.Write([]byte(`{"items":[{"id":"` + one + `","name":"Fix it"},{"id":"` + two + `","name":"fix it too"}]}`))
	}))
	defer server.Close()
	a := &App{Config: NewConfig(func(name string) string {
		return map[string]string{"ALOFT_URL": server.URL, "ALOFT_API_KEY": "k"}[name]
	})}
	for arg, want := range map[string]string{
		one: one, "bc-11111": one, "11112": two, "fix IT": one, "Fix it too": two, "": "",
		"bc-1111": "agent_ambiguous", "fix": "agent_not_found", "1": "agent_ambiguous", "it": "agent_not_found",
	} {
		id, err := a.ResolveAgent(t.Context(), arg)
		if err != nil {
			p := cli.ProblemOf(err)
			id = p.Code
			if p.Code == "agent_ambiguous" && (p.Exit != cli.Usage || !strings.Contains(p.Message, two+" (fix it too)")) {
				t.Errorf("%q: %v", arg, p)
			}
		}
		if id != want {
			t.Errorf("%q means %s, not %s", arg, id, want)
		}
	}
	if asked != 8 {
		t.Errorf("the server was asked %d times; for a whole id, it must not be", asked)
	}
}
