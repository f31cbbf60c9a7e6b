package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWebSearchConfig(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "search.key"), []byte("from-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(text string) (Config, error) {
		file := filepath.Join(dir, "aloft.yaml")
		if err := os.WriteFile(file, []byte("web_search: "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return LoadConfig(file, func(name string) string {
			return map[string]string{"SEARCH_KEY": "from-the-environment"}[name]
		})
	}
	for text, key := range map[string]string{
		"{provider: searxng, url: http://127.0.0.1:8888}": "",
		"{provider: brave, key_env: SEARCH_KEY}":          "from-the-environment",
		"{provider: exa, key_file: search.key}":           "from-a-file",
		"{provider: tavily, key: tvly-0123456789}":        "tvly-0123456789",
	} {
		c, err := read(text)
		if err != nil || c.WebSearch.Key != key || c.SecretValues()["web_search.key"] != key {
			t.Errorf("%s: %+v, %v", text, c.WebSearch, err)
		}
		if web, err := c.WebSearch.open(); web == nil || err != nil {
			t.Errorf("%s: %v, %v", text, web, err)
		}
	}
	for text, want := range map[string]string{
		"{url: https://search.example.com}":                   "web_search.provider is missing",
		"{key_env: SEARCH_KEY}":                               "web_search.provider is missing",
		"{provider: google, key: x}":                          `web_search.provider: invalid value "google": must be one of searxng, brave, tavily, exa`,
		"{provider: searxng}":                                 "web_search.url is missing",
		"{provider: brave}":                                   "web_search.key is missing: brave needs one; set key_env or key_file",
		"{provider: brave, key_env: OTHER}":                   "web_search.key_env: the variable OTHER is not set",
		"{provider: brave, key: x, key_file: search.key}":     "web_search.key and web_search.key_file cannot both be set",
		"{provider: brave, key_file: none}":                   "web_search.key_file: ",
		"{provider: searxng, url: 'https://a:b@s.example'}":   "web_search.url: invalid address",
		"{provider: searxng, url: https://s.example, x: y}":   "unknown key",
		"{provider: searxng, url: [https://s.example]}":       "cannot unmarshal",
		"{provider: exa, key: x, url: https://s.example?a=b}": "web_search.url: invalid address",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if web, err := DefaultConfig().WebSearch.open(); web != nil || err != nil {
		t.Errorf("without a provider: %v, %v", web, err)
	}
}

func TestProbeWebSearch(t *testing.T) {
	status := http.StatusForbidden
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, `{"results": [{"url": "https://example.com", "title": "x", "content": "y"}]}`)
	}))
	defer s.Close()
	c := DefaultConfig()
	if checks := ProbeWebSearch(t.Context(), c); len(checks) != 0 {
		t.Errorf("without a provider: %+v", checks)
	}
	c.WebSearch = searchConfig{Provider: "searxng", URL: s.URL}
	if checks := ProbeWebSearch(t.Context(), c); len(checks) != 1 || checks[0].OK || checks[0].Required || !strings.Contains(checks[0].Detail, "search.formats") || checks[0].Fix == "" {
		t.Errorf("with JSON off: %+v", checks)
	}
	status = http.StatusOK
	if checks := ProbeWebSearch(t.Context(), c); len(checks) != 1 || !checks[0].OK || checks[0].Detail != "searxng answers: 1 results" {
		t.Errorf("when it works: %+v", checks)
	}
}
