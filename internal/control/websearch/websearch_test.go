package websearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const key = "key-0123456789"

// provider returns an engine of the given kind whose API is served by handler,
// and the list of delays that it makes for rate limits.
func provider(t *testing.T, name string, handler http.HandlerFunc) (*Engine, *[]time.Duration) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	var pauses []time.Duration
	c := Config{Provider: name, URL: s.URL + "/", Wait: func(_ context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return nil
	}}
	if name != "searxng" {
		c.Key = key
	}
	if name == "anthropic" || name == "openai" {
		c.Model = "test-model"
	}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e, &pauses
}

// Each provider gets the request that its documentation describes, and its
// response is parsed correctly.
func TestWires(t *testing.T) {
	const query = `go "testing/synctest" & more`
	refuse := func(w http.ResponseWriter, status int, format string, args ...any) {
		http.Error(w, fmt.Sprintf(format, args...), status)
	}
	posted := func(t *testing.T, w http.ResponseWriter, r *http.Request, want string) bool {
		body, err := io.ReadAll(r.Body)
		var got, wanted any
		if err != nil || json.Unmarshal(body, &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil || !cmp.Equal(got, wanted) ||
			r.Method != http.MethodPost || r.URL.String() != "/search" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %s", r.Method, r.URL, body)
			refuse(w, http.StatusBadRequest, "bad request")
			return false
		}
		return true
	}
	quoted, err := json.Marshal(query)
	if err != nil {
		t.Fatal(err)
	}
	want := []Result{
		{Title: "synctest package", URL: "https://pkg.go.dev/testing/synctest", Snippet: "Package synctest provides support for testing concurrent code."},
		{Title: "It's here & now", URL: "https://go.dev/blog/synctest", Snippet: ""},
	}
	for name, handler := range map[string]http.HandlerFunc{
		"searxng": func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			switch {
			case r.Method != http.MethodGet || r.URL.Path != "/search" || q.Get("q") != query:
				refuse(w, http.StatusBadRequest, "<!doctype html>")
			case q.Get("format") != "json":
				refuse(w, http.StatusForbidden, "<!doctype html><title>403 Forbidden</title>")
			}
			fmt.Fprintf(w, `{"query": %s, "number_of_results": 0, "results": [
				{"url": "https://pkg.go.dev/testing/synctest", "title": "synctest package", "content": "Package synctest provides support\n for testing  concurrent code.", "engine": "duckduckgo", "parsed_url": ["https", "pkg.go.dev", "/testing/synctest", "", "", ""], "template": "default.html", "engines": ["duckduckgo", "brave"], "positions": [1, 2], "thumbnail": null, "publishedDate": null, "score": 3.0, "category": "general"},
				{"url": "magnet:?xt=urn:btih:0", "title": "not a page", "content": "x", "engine": "piratebay", "category": "files"},
				{"url": "https://pkg.go.dev/testing/synctest", "title": "the same", "content": "x", "engine": "google"},
				{"url": "https://go.dev/blog/synctest", "title": "It's here & now", "content": null, "engine": "brave", "score": 1.0}
			], "answers": [{"template": "answer/legacy.html", "engine": "x", "url": null, "answer": "42"}], "corrections": [], "infoboxes": [], "suggestions": ["go test"], "unresponsive_engines": [["google", "timeout"], ["startpage", "Suspended: CAPTCHA"]]}`, quoted)
		},
		"brave": func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			if r.Method != http.MethodGet || r.URL.Path != "/res/v1/web/search" || q.Get("q") != query || q.Get("count") != "10" || r.Header.Get("X-Subscription-Token") != key || r.Header.Get("Accept") != "application/json" {
				refuse(w, http.StatusUnprocessableEntity, `{"type":"ErrorResponse"}`)
			}
			fmt.Fprintf(w, `{"type": "search", "query": {"original": %s, "more_results_available": true}, "mixed": {"type": "mixed", "main": [{"type": "web", "index": 0, "all": false}]}, "web": {"type": "search", "family_friendly": true, "results": [
				{"title": "synctest package", "url": "https://pkg.go.dev/testing/synctest", "is_source_local": false, "language": "en", "description": "Package <strong>synctest</strong> provides support for testing concurrent code.", "type": "search_result", "subtype": "generic"},
				{"title": "It&#x27;s here &amp; now", "url": "https://go.dev/blog/synctest", "description": "", "type": "search_result"}]}}`, quoted)
		},
		"tavily": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+key {
				refuse(w, http.StatusUnauthorized, `{"detail":{"error":"Unauthorized: missing or invalid API key."}}`)
			}
			if posted(t, w, r, `{"query": `+string(quoted)+`, "max_results": 10, "search_depth": "basic"}`) {
				fmt.Fprintf(w, `{"query": %s, "follow_up_questions": null, "answer": null, "images": [], "results": [
					{"url": "https://pkg.go.dev/testing/synctest", "title": "synctest package", "content": "Package synctest provides support for testing concurrent code.", "score": 0.93, "raw_content": null},
					{"url": "https://go.dev/blog/synctest", "title": "It's here & now", "content": "", "score": 0.5, "raw_content": null}], "response_time": 1.09, "request_id": "123e4567"}`, quoted)
			}
		},
		"exa": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("x-api-key") != key {
				refuse(w, http.StatusUnauthorized, `{"requestId":"b5","error":"Invalid API key","tag":"INVALID_API_KEY"}`)
			}
			if posted(t, w, r, `{"query": `+string(quoted)+`, "type": "auto", "numResults": 10, "contents": {"highlights": true}}`) {
				fmt.Fprint(w, `{"requestId": "b5947044c4b78efa9552a7c89b306d95", "resolvedSearchType": "neural", "results": [
					{"title": "synctest package", "url": "https://pkg.go.dev/testing/synctest", "publishedDate": "2025-02-19T00:00:00.000Z", "author": "", "id": "https://pkg.go.dev/testing/synctest", "image": "", "highlights": ["Package synctest provides support for testing concurrent code."], "highlightScores": [0.46]},
					{"title": "It's here & now", "url": "https://go.dev/blog/synctest", "id": "x", "author": null}], "costDollars": {"total": 0.005}}`)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := provider(t, name, handler)
			got, err := e.Search(t.Context(), query)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// Errors contain the provider's message and advice, and contain neither the
// query nor the key.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, provider string
		status         int
		header         http.Header
		body, want     string
	}{
		{"FormatOff", "searxng", 403, nil, "<!doctype html><html><title>403 Forbidden</title></html>", "searxng answered 403 Forbidden (its settings.yml must list json in search.formats)"},
		{"Limiter", "searxng", 429, http.Header{"Retry-After": {"3600"}}, "Too Many Requests", "searxng answered 429 Too Many Requests (its limiter blocks programs: exempt this server in its limiter.toml)"},
		{"EnginesFail", "searxng", 200, nil, `{"query":"q","results":[],"unresponsive_engines":[["google","timeout"],["brave","Suspended: too many requests"]]}`, "searxng: no results, because its engines failed: google: timeout; brave: Suspended: too many requests"},
		{"OtherServer", "searxng", 200, nil, `<!doctype html>`, "searxng: the response is not what its API describes; check web_search.url"},
		{"OtherJSON", "searxng", 200, nil, `{"ok":true}`, "searxng: the response is not what its API describes; check web_search.url"},
		{"Redirect", "searxng", 302, http.Header{"Location": {"https://evil.example/search"}}, "", "searxng answered 302 Found (web_search.url redirects elsewhere: set it to the final address)"},
		{"BraveKey", "brave", 422, nil, `{"type":"ErrorResponse","error":{"id":"5d832250","status":422,"code":"SUBSCRIPTION_TOKEN_INVALID","detail":"The provided subscription token is invalid.","meta":{"component":"authentication"}},"time":1663072993}`, "brave answered 422 Unprocessable Entity: SUBSCRIPTION_TOKEN_INVALID: The provided subscription token is invalid."},
		{"BraveMonth", "brave", 429, http.Header{"X-RateLimit-Reset": {"1419704"}}, `{"type":"ErrorResponse","error":{"code":"QUOTA_LIMITED","detail":"Monthly quota exceeded."}}`, "brave answered 429 Too Many Requests: QUOTA_LIMITED: Monthly quota exceeded. (the rate limit is used up: search less often)"},
		{"TavilyKey", "tavily", 401, nil, `{"detail":{"error":"Unauthorized: missing or invalid API key."}}`, "tavily answered 401 Unauthorized: Unauthorized: missing or invalid API key. (check the key of web_search in the server's configuration)"},
		{"TavilyPlan", "tavily", 432, nil, `{"detail":{"error":"This request exceeds your plan's set usage limit."}}`, "tavily answered 432: This request exceeds your plan's set usage limit. (the account's usage limit is reached)"},
		{"ExaKey", "exa", 401, nil, `{"requestId":"b5","error":"Invalid API key","tag":"INVALID_API_KEY"}`, "exa answered 401 Unauthorized: Invalid API key (check the key of web_search in the server's configuration)"},
		{"ExaCredits", "exa", 402, nil, `{"error":"You have exceeded your credits limit."}`, "exa answered 402 Payment Required: You have exceeded your credits limit. (the account has no credits left)"},
		{"Down", "exa", 503, nil, `upstream connect error`, "exa answered 503 Service Unavailable"},
		{"Endless", "exa", 200, nil, strings.Repeat("x", maxBody+1), "exa sent more than 4 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests := 0
			e, pauses := provider(t, c.provider, func(w http.ResponseWriter, _ *http.Request) {
				requests++
				for name, values := range c.header {
					w.Header().Set(name, values[0])
				}
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
			_, err := e.Search(t.Context(), "the-query")
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
			if requests != 1 || len(*pauses) > 0 {
				t.Errorf("%d requests, pauses %v", requests, *pauses)
			}
		})
	}
	t.Run("Unreachable", func(t *testing.T) {
		e, err := New(Config{Provider: "searxng", URL: "http://127.0.0.1:1", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Search(t.Context(), "the-query")
		if err == nil || !strings.HasPrefix(err.Error(), "searxng is unreachable: ") || strings.Contains(err.Error(), "the-query") || strings.Contains(err.Error(), key) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("Cancelled", func(t *testing.T) {
		e, _ := provider(t, "searxng", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(io.ErrClosedPipe)
		if _, err := e.Search(ctx, "q"); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
	})
}

// A search that exceeds the rate limit is retried after the delay that the
// provider demands, at most twice.
func TestRateLimits(t *testing.T) {
	for _, c := range []struct {
		name     string
		provider string
		header   http.Header
		limited  int // number of refused requests
		pauses   []time.Duration
		ok       bool
	}{
		{"Brave", "brave", http.Header{"X-RateLimit-Limit": {"1, 15000"}, "X-RateLimit-Reset": {"1, 1419704"}}, 1, []time.Duration{time.Second}, true},
		{"RetryAfter", "tavily", http.Header{"Retry-After": {"7"}}, 2, []time.Duration{7 * time.Second, 7 * time.Second}, true},
		{"Unsaid", "exa", nil, 1, []time.Duration{time.Second}, true},
		{"TooOften", "exa", nil, 3, []time.Duration{time.Second, time.Second}, false},
		{"TooLong", "tavily", http.Header{"Retry-After": {"11"}}, 1, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests := 0
			e, pauses := provider(t, c.provider, func(w http.ResponseWriter, _ *http.Request) {
				if requests++; requests > c.limited {
					fmt.Fprint(w, `{"type": "search", "results": []}`)
					return
				}
				for name, values := range c.header {
					w.Header().Set(name, values[0])
				}
				w.WriteHeader(http.StatusTooManyRequests)
			})
			got, err := e.Search(t.Context(), "q")
			if (err == nil) != c.ok || len(got) > 0 {
				t.Errorf("got %v, %v", got, err)
			}
			if diff := cmp.Diff(c.pauses, *pauses); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Results are limited in number and size, and each text is one line.
func TestBounds(t *testing.T) {
	e, _ := provider(t, "searxng", func(w http.ResponseWriter, _ *http.Request) {
		type result struct {
			URL     string `json:"url"`
			Title   string `json:"title"`
			Content string `json:"content"`
		}
		results := []result{{URL: "https://long.example/" + strings.Repeat("x", maxURL)}, {URL: "javascript:alert(1)"}, {URL: "https://"}}
		for i := range 30 {
			results = append(results, result{fmt.Sprintf("https://example.com/%d", i), strings.Repeat("é\x1b\r\n", 300), strings.Repeat("word ", 1000)})
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"results": results}); err != nil {
			t.Error(err)
		}
	})
	got, err := e.Search(t.Context(), "q")
	if err != nil || len(got) != maxResults {
		t.Fatalf("%d results, %v", len(got), err)
	}
	for i, r := range got {
		if r.URL != fmt.Sprintf("https://example.com/%d", i) || len([]rune(r.Title)) != maxTitle || len([]rune(r.Snippet)) != maxSnippet || strings.ContainsAny(r.Title+r.Snippet, "\r\n\x1b") {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// A response of 3 MiB must not decode to hundreds of MiB.
func TestManyValues(t *testing.T) {
	e, _ := provider(t, "searxng", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"results":[`+strings.Repeat("{},", 1<<20)+"{}]}")
	})
	if _, err := e.Search(t.Context(), "q"); err == nil || !strings.Contains(err.Error(), "more than 50000 JSON values") {
		t.Errorf("error is %v", err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{}, "provider is missing"},
		{Config{Provider: "bing", URL: "https://x.example"}, `provider: invalid value "bing": must be one of searxng, brave, tavily, exa`},
		{Config{Provider: "searxng"}, "url is missing"},
		{Config{Provider: "brave"}, "key is missing: brave needs one"},
		{Config{Provider: "searxng", URL: "search.example.com"}, "url: invalid address"},
		{Config{Provider: "searxng", URL: "https://me:pw@search.example.com"}, "url: invalid address"},
		{Config{Provider: "searxng", URL: "https://search.example.com/?q="}, "url: invalid address"},
		{Config{Provider: "exa", Key: key, URL: "ftp://api.example.com"}, "url: invalid address"},
	} {
		if _, err := New(c.config); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.config, err)
		}
	}
	for _, c := range []Config{{Provider: "searxng", URL: "http://127.0.0.1:8888/searxng"}, {Provider: "brave", Key: key}, {Provider: "tavily", Key: key}, {Provider: "exa", Key: key}} {
		if e, err := New(c); err != nil || e.Provider() != c.Provider {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A provider's error message contains the key and the query that it got.
func TestRefusalQuotesNothingThatWasSent(t *testing.T) {
	const query = "zebra & plans"
	for name, body := range map[string]string{
		"brave":  `{"error": {"code": "invalid", "detail": "no %s, %s"}}`,
		"tavily": `{"detail": {"error": "no %s, %s"}}`,
		"exa":    `{"error": "no %s, %s"}`,
	} {
		for _, sent := range [][2]string{{key, query}, {url.QueryEscape(key), url.QueryEscape(query)}} {
			e, _ := provider(t, name, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = fmt.Fprintf(w, body, sent[0], sent[1])
			})
			_, err := e.Search(t.Context(), query)
			if err == nil || strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "zebra") || !strings.Contains(err.Error(), "401") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A page uses invisible characters to hide words from people but not from a
// model.
func TestResultsHideNothing(t *testing.T) {
	hidden := "a\U000e0069\U000e0067\u200b\u202e\u2066\ufeff\U000e0101b"
	e, _ := provider(t, "brave", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "search", "web": map[string]any{
			"results": []map[string]string{{"url": "https://example.com/", "title": hidden, "description": hidden}},
		}})
	})
	got, err := e.Search(t.Context(), "q")
	if err != nil || len(got) != 1 || got[0].Title != "ab" || got[0].Snippet != "ab" {
		t.Errorf("%+q, %v", got, err)
	}
}
