package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestModelOfKey(t *testing.T) {
	for name, test := range map[string]struct {
		env      map[string]string
		provider string
		variable string
	}{
		"no key":    {nil, "", ""},
		"Anthropic": {map[string]string{"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}, "anthropic", "ANTHROPIC_API_KEY"},
		"OpenAI":    {map[string]string{"OPENAI_API_KEY": "k"}, "openai", "OPENAI_API_KEY"},
		"both":      {map[string]string{"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "k"}, "anthropic", "ANTHROPIC_API_KEY"},
	} {
		m, variable := ModelOfKey(func(name string) string { return test.env[name] })
		if m.Provider != test.provider || variable != test.variable || m.APIKey != test.env[variable] || m.BaseURL != test.env["ANTHROPIC_BASE_URL"] {
			t.Errorf("%s: %+v, %q", name, m, variable)
		}
	}
}

func TestLocalModel(t *testing.T) {
	for answer, want := range map[string]string{
		`{"data":[{"id":"qwen3-coder"},{"id":"other"}]}`: "qwen3-coder",
		`{"data":[]}`:         "",
		`<html>a page</html>`: "",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(answer))
		}))
		m, ok := LocalModel(t.Context(), s.URL+"/v1")
		if m.Name != want || ok != (want != "") {
			t.Errorf("%s: %+v, %v", answer, m, ok)
		}
		s.Close()
		if _, ok := LocalModel(t.Context(), s.URL+"/v1"); ok {
			t.Error("a model of a server that is gone")
		}
	}
}
