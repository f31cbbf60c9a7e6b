package websearch

import (
	"context"
	"encoding/json"
	"net/http"
)

// Statuses of Tavily for an exhausted plan or budget.
const (
	tavilyPlan   = 432
	tavilyBudget = 433
)

// tavily is the Tavily API, "Search".
var tavily = kind{
	base: "https://api.tavily.com", keyed: true,
	ask: func(ctx context.Context, e *Engine, query string) (*http.Request, error) {
		req, err := e.post(ctx, "/search", map[string]any{"query": query, "max_results": maxResults, "search_depth": "basic"})
		if err == nil {
			req.Header.Set("Authorization", "Bearer "+e.config.Key)
		}
		return req, err
	},
	read: func(body []byte) ([]Result, error) {
		var out struct {
			Results *[]struct{ Title, URL, Content string }
		}
		if json.Unmarshal(body, &out) != nil || out.Results == nil {
			return nil, errShape
		}
		var found []Result
		for _, r := range *out.Results {
			found = append(found, Result{Title: r.Title, URL: r.URL, Snippet: r.Content})
		}
		return found, nil
	},
	words: func(body []byte) string {
		var out struct{ Detail struct{ Error string } }
		_ = json.Unmarshal(body, &out) // ignore the error: the status alone suffices
		return out.Detail.Error
	},
	advice: func(status int) string {
		if status == tavilyPlan || status == tavilyBudget {
			return "the account's usage limit is reached"
		}
		return ""
	},
}
