package websearch

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// exa is the Exa API, "Search".
var exa = kind{
	base: "https://api.exa.ai", keyed: true,
	ask: func(ctx context.Context, e *Engine, query string) (*http.Request, error) {
		req, err := e.post(ctx, "/search", map[string]any{
			"query": query, "type": "auto", "numResults": maxResults,
			"contents": map[string]any{"highlights": true}, // without contents, results have no text
		})
		if err == nil {
			req.Header.Set("x-api-key", e.config.Key)
		}
		return req, err
	},
	read: func(body []byte) ([]Result, error) {
		var out struct {
			Results *[]struct {
				Title, URL string
				Highlights []string
			}
		}
		if json.Unmarshal(body, &out) != nil || out.Results == nil {
			return nil, errShape
		}
		var found []Result
		for _, r := range *out.Results {
			found = append(found, Result{Title: r.Title, URL: r.URL, Snippet: strings.Join(r.Highlights, " … ")})
		}
		return found, nil
	},
	words: func(body []byte) string {
		var out struct{ Error string }
		_ = json.Unmarshal(body, &out) // ignore the error: the status alone suffices
		return out.Error
	},
	advice: func(status int) string {
		if status == http.StatusPaymentRequired {
			return "the account has no credits left"
		}
		return ""
	},
}
