package e2e

import (
	"net/http"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/embeddingtest"
)

// SemSearch finds code that shares no word with the query, with a model for
// embeddings that only the server can reach. The machine never has the model's
// key, and the model never gets a secret. When the model fails, the search ranks
// by keywords.
func TestSearchByMeaning(t *testing.T) {
	t.Parallel()
	s := embeddingtest.New(t)
	s.Synonyms("car", "automobile")
	s.Synonyms("repair", "maintenance")
	git := gittest.New(t)
	url := git.Repo("meaning", map[string]string{
		"boat.txt": "repair the wooden hull and paint over every plank below\n", "engine.txt": "maintenance for an automobile\n",
		"notes.txt": "the value is " + embeddingtest.Key + "\n",
	})
	a := start(t, scripted(t, `
scripts:
  - match: find it
    turns:
      - calls:
          - {tool: SemSearch, args: {query: "repair car"}}
      - calls:
          - {tool: Shell, args: {command: "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c 'sk-[e]mbed'; curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:26497/v1/models"}}
      - text: Done.
  - match: again
    turns:
      - calls:
          - {tool: SemSearch, args: {query: "repair car"}}
      - text: Done.
`)+"embedding_model: {provider: openai, name: "+embeddingtest.Model+", base_url: '"+s.URL+"', api_key: "+embeddingtest.Key+"}\n")
	r := a.finish(a.create(url, "find it", nil))
	events := a.events(r.AgentID)
	if at, other := strings.Index(events, "engine.txt:1-1"), strings.Index(events, "boat.txt:1-1"); at < 0 || at > other || strings.Contains(events, "keywords only") {
		t.Errorf("the search did not find by meaning:\n%s", events)
	}
	if !strings.Contains(events, `0\n404`) {
		t.Errorf("the key is in the machine, or the machine reaches another API of the model:\n%s", events)
	}
	texts, _ := s.Inputs()
	all := strings.Join(texts, "\n")
	if strings.Contains(all, embeddingtest.Key) || !strings.Contains(all, "notes.txt\nthe value is [REDACTED") {
		t.Errorf("the model got %q", texts)
	}
	if _, metrics := a.do("GET", "/metrics", nil); !strings.Contains(metrics, `kind="embedding"`) {
		t.Errorf("no tokens are counted:\n%s", metrics)
	}

	s.Fail(http.StatusServiceUnavailable, 0)
	a.finish(a.followUp(r, "again"))
	later := strings.TrimPrefix(a.events(r.AgentID), events)
	if !strings.Contains(later, "ranked by keywords only, because the embedding endpoint failed") || !strings.Contains(later, "boat.txt:1-1") {
		t.Errorf("the search did not fall back to keywords:\n%s", later)
	}
}
