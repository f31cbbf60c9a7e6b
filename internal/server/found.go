package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// LocalModels is the address at which Ollama and other local model servers
// listen by default.
const LocalModels = "http://127.0.0.1:11434/v1"

// ModelOfKey returns the model to use without configuration if an API key is in
// the environment: one of Anthropic's for ANTHROPIC_API_KEY, or else one of
// OpenAI's for OPENAI_API_KEY. variable is the name of the variable that was
// found, or "".
func ModelOfKey(getenv func(string) string) (m ModelConfig, variable string) {
	if key := getenv("ANTHROPIC_API_KEY"); key != "" {
		return ModelConfig{ID: "claude", Provider: "anthropic", Name: "claude-sonnet-4-5", BaseURL: getenv("ANTHROPIC_BASE_URL"), APIKey: key}, "ANTHROPIC_API_KEY"
	}
	if key := getenv("OPENAI_API_KEY"); key != "" {
		return ModelConfig{ID: "gpt", Provider: "openai", Name: "gpt-5", BaseURL: getenv("OPENAI_BASE_URL"), APIKey: key}, "OPENAI_API_KEY"
	}
	return ModelConfig{}, ""
}

// probeTime is how long LocalModel waits for an answer.
const probeTime = time.Second

// LocalModel returns the first model of the OpenAI-compatible server at base. ok
// is false if no such server answers.
func LocalModel(ctx context.Context, base string) (m ModelConfig, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		return m, false
	}
	// Do not follow redirects: an unknown program may listen at this port.
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return m, false
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list) != nil || len(list.Data) == 0 {
		return m, false
	}
	return ModelConfig{ID: "local", Provider: "openai", API: "chat", Name: list.Data[0].ID, BaseURL: base}, true
}
