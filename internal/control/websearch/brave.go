package websearch

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// braveText returns the text of an excerpt from Brave, which is HTML.
func braveText(s string) string {
	return html.UnescapeString(strings.NewReplacer("<strong>", "", "</strong>", "").Replace(s))
}

// brave is the Brave Search API, "Web Search".
var brave = kind{
	base: "https://api.search.brave.com", keyed: true,
	ask: func(ctx context.Context, e *Engine, query string) (*http.Request, error) {
		values := url.Values{"q": {query}, "count": {strconv.Itoa(maxResults)}, "text_decorations": {"false"}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+"/res/v1/web/search?"+values.Encode(), nil)
		if err == nil {
			req.Header.Set("X-Subscription-Token", e.config.Key)
		}
		return req, err
	},
	read: func(body []byte) ([]Result, error) {
		var out struct {
			Type string
			Web  struct {
				Results []struct{ Title, URL, Description string }
			}
		}
		if json.Unmarshal(body, &out) != nil || out.Type != "search" {
			return nil, errShape
		}
		var found []Result
		for _, r := range out.Web.Results { // without results, web is missing
			found = append(found, Result{Title: braveText(r.Title), URL: r.URL, Snippet: braveText(r.Description)})
		}
		return found, nil
	},
	words: func(body []byte) string {
		var out struct {
			Error struct{ Code, Detail string }
		}
		_ = json.Unmarshal(body, &out) // ignore the error: the status alone suffices
		return strings.TrimPrefix(out.Error.Code+": "+out.Error.Detail, ": ")
	},
}
