package websearch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// searxng is a SearXNG server: https://docs.searxng.org/dev/search_api.html.
var searxng = kind{
	ask: func(ctx context.Context, e *Engine, query string) (*http.Request, error) {
		values := url.Values{"q": {query}, "format": {"json"}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+"/search?"+values.Encode(), nil)
		if err == nil && e.config.Key != "" {
			req.Header.Set("Authorization", "Bearer "+e.config.Key)
		}
		return req, err
	},
	read: func(body []byte) ([]Result, error) {
		var out struct {
			Results *[]struct{ Title, URL, Content string }
			// Unresponsive lists engines that did not answer, each as [name, reason].
			Unresponsive [][]string `json:"unresponsive_engines"`
		}
		if json.Unmarshal(body, &out) != nil || out.Results == nil {
			return nil, errShape
		}
		var found []Result
		for _, r := range *out.Results {
			found = append(found, Result{Title: r.Title, URL: r.URL, Snippet: r.Content})
		}
		if len(found) == 0 && len(out.Unresponsive) > 0 {
			var silent []string
			for _, u := range out.Unresponsive {
				silent = append(silent, line(strings.Join(u, ": "), maxTitle))
			}
			return nil, fmt.Errorf("no results, because its engines failed: %s", strings.Join(silent[:min(len(silent), maxResults)], "; "))
		}
		return found, nil
	},
	words: func([]byte) string { return "" }, // SearXNG's error pages are HTML
	advice: func(status int) string {
		switch status {
		case http.StatusForbidden:
			return "its settings.yml must list json in search.formats"
		case http.StatusTooManyRequests:
			return "its limiter blocks programs: exempt this server in its limiter.toml"
		}
		return ""
	},
}
