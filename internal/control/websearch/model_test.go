package websearch

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// posted compares a request with the one that the provider's documentation
// describes.
func posted(t *testing.T, r *http.Request, path, want string, headers map[string]string) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	var got, wanted any
	if err != nil || json.Unmarshal(body, &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil || !cmp.Equal(got, wanted) || r.Method != http.MethodPost || r.URL.String() != path {
		t.Errorf("%s %s %s, want %s", r.Method, r.URL, body, want)
	}
	for name, value := range headers {
		if r.Header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, r.Header.Get(name), value)
		}
	}
}

func TestModelsSearch(t *testing.T) {
	const query = `go "testing/synctest" & more`
	asked, err := json.Marshal(prompt + query)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    []Result
	}{
		"anthropic": {func(w http.ResponseWriter, r *http.Request) {
			posted(t, r, "/v1/messages", `{"model": "test-model", "max_tokens": 2048, "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 1}], "messages": [{"role": "user", "content": `+string(asked)+`}]}`,
				map[string]string{"X-Api-Key": key, "Anthropic-Version": "2023-06-01"})
			fmt.Fprint(w, `{"id": "msg_1", "type": "message", "role": "assistant", "content": [
				{"type": "text", "text": "I'll search."},
				{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "go synctest"}},
				{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
					{"type": "web_search_result", "url": "https://pkg.go.dev/testing/synctest", "title": "synctest package", "encrypted_content": "EqgfCioIARgBIiQ3", "page_age": null},
					{"type": "web_search_result", "url": "https://go.dev/blog/synctest", "title": "The blog", "encrypted_content": "Eqgf", "page_age": "1 year"}]},
				{"type": "text", "text": "It helps.", "citations": [{"type": "web_search_result_location", "url": "https://pkg.go.dev/testing/synctest", "title": "synctest package", "encrypted_index": "Eo8B", "cited_text": "Package synctest provides\n support."}]}],
				"stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 5, "server_tool_use": {"web_search_requests": 1}}}`)
		}, []Result{
			{Title: "synctest package", URL: "https://pkg.go.dev/testing/synctest", Snippet: "Package synctest provides support."},
			{Title: "The blog", URL: "https://go.dev/blog/synctest"},
		}},
		"openai": {func(w http.ResponseWriter, r *http.Request) {
			posted(t, r, "/responses", `{"model": "test-model", "max_output_tokens": 2048, "store": false, "tools": [{"type": "web_search"}], "tool_choice": "required", "include": ["web_search_call.action.sources"], "input": `+string(asked)+`}`,
				map[string]string{"Authorization": "Bearer " + key})
			text := "Pages:\n- ÜÜnit: it provides support ([go.dev](x))"
			start := strings.Index(text, " ([") - 2 // each Ü has two bytes
			out, _ := json.Marshal(text)            // a string can be encoded
			fmt.Fprintf(w, `{"id": "resp_1", "object": "response", "status": "completed", "output": [
				{"type": "reasoning", "id": "rs_1", "summary": []},
				{"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "go synctest", "sources": [{"type": "url", "url": "https://go.dev/blog/synctest"}, {"type": "url", "url": "https://pkg.go.dev/testing/synctest"}]}},
				{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": %s, "annotations": [{"type": "url_citation", "start_index": %d, "end_index": %d, "url": "https://pkg.go.dev/testing/synctest?utm_source=openai", "title": "synctest package"}]}]}],
				"usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}}`, out, start, start+5)
		}, []Result{
			{Title: "synctest package", URL: "https://pkg.go.dev/testing/synctest", Snippet: "- ÜÜnit: it provides support"},
			{Title: "https://go.dev/blog/synctest", URL: "https://go.dev/blog/synctest"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := provider(t, name, c.handler)
			got, err := e.Search(t.Context(), query)
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// TestModelsThatDoNotSearch checks what an agent is told if there are no pages.
func TestModelsThatDoNotSearch(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"anthropic", `{"type": "message", "content": [{"type": "text", "text": "I know."}]}`, 200, "anthropic: the model did not search; set web_search.model to one that can"},
		{"anthropic", `{"type": "message", "content": [{"type": "web_search_tool_result", "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}}]}`, 200, "anthropic: the search failed: unavailable"},
		{"anthropic", `{"type": "error", "error": {"type": "invalid_request_error", "message": "web search is not enabled"}}`, 400, "anthropic answered 400 Bad Request: web search is not enabled"},
		{"anthropic", `{"results": []}`, 200, "anthropic: the response is not what its API describes; check web_search.url"},
		{"openai", `{"object": "response", "output": [{"type": "message", "content": [{"type": "output_text", "text": "I know."}]}]}`, 200, "openai: the model did not search; set web_search.model to one that can"},
		{"openai", `{"object": "response", "output": [{"type": "web_search_call", "status": "failed"}]}`, 200, "openai: the search failed: failed"},
		{"openai", `{"error": {"message": "Incorrect API key provided.", "type": "invalid_request_error"}}`, 401, "openai answered 401 Unauthorized: Incorrect API key provided. (check the key of web_search in the server's configuration)"},
		{"openai", `[]`, 200, "openai: the response is not what its API describes; check web_search.url"},
	} {
		e, _ := provider(t, c.name, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		if _, err := e.Search(t.Context(), "x"); err == nil || err.Error() != c.want {
			t.Errorf("%s %s: %v, want %s", c.name, c.body, err, c.want)
		}
	}
}

func TestModelIsChecked(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Provider: "openai", Key: key}, "model is missing: give openai's name of a model that searches the web"},
		{Config{Provider: "anthropic", Model: "m"}, "key is missing: anthropic needs one; set key_env or key_file"},
		{Config{Provider: "brave", Key: key, Model: "m"}, "model: brave has no models; only anthropic and openai have"},
	} {
		if err := c.config.Check(); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.config, err, c.want)
		}
	}
}
