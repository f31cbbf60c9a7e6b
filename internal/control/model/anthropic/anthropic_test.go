package anthropic_test

import (
	"strings"
	"testing"

	"aloft/internal/control/model"
	"aloft/internal/control/model/anthropic"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/conversation"
)

func TestModel(t *testing.T) {
	for name, thinking := range map[string]int{"Budget": 2048, "Adaptive": anthropic.Adaptive} {
		t.Run(name, func(t *testing.T) {
			modeltest.Run(t, modeltest.Provider{
				Start: modeltest.NewAnthropic,
				New: func(_ testing.TB, url, key, name string) model.Model {
					return anthropic.New(anthropic.Config{Name: name, BaseURL: url, Key: key, Thinking: thinking, Schema: true, Serial: true})
				},
				KeepsThinking: true,
			})
		})
	}
}

// ask sends a request with the configuration, and returns its body and its beta
// header.
func ask(t *testing.T, cfg anthropic.Config, messages ...conversation.Message) (body, beta string) {
	t.Helper()
	s := modeltest.NewAnthropic(t, modeltest.Reply{Text: "ok"})
	cfg.Name, cfg.BaseURL, cfg.Key = modeltest.Model, s.URL, modeltest.Key
	for _, err := range anthropic.New(cfg).Stream(t.Context(), model.Request{Messages: messages}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	asked := s.Requests()[0]
	return string(asked.Body), asked.Header.Get("Anthropic-Beta")
}

func TestWhatIsAskedFor(t *testing.T) {
	hi := conversation.Text(conversation.User, "hi")
	for _, c := range []struct {
		name string
		cfg  anthropic.Config
		body string
		beta string
	}{
		{"Nothing", anthropic.Config{MaxOutput: 5000}, `"max_tokens":5000`, ""},
		{"Budget", anthropic.Config{Thinking: 2048}, `"thinking":{"budget_tokens":2048,"type":"enabled"}`, "interleaved-thinking-2025-05-14"},
		{"Adaptive", anthropic.Config{Thinking: anthropic.Adaptive}, `"thinking":{"display":"summarized","type":"adaptive"}`, ""},
		{"Disabled", anthropic.Config{Thinking: anthropic.Disabled}, `"thinking":{"type":"disabled"}`, ""},
		{"Effort", anthropic.Config{Effort: "xhigh"}, `"output_config":{"effort":"xhigh"}`, ""},
		{"LongContext", anthropic.Config{LongBeta: true, Thinking: anthropic.Adaptive}, `"type":"adaptive"`, "context-1m-2025-08-07"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, beta := ask(t, c.cfg, hi)
			if !strings.Contains(body, c.body) || beta != c.beta {
				t.Errorf("beta %q, body %s", beta, body)
			}
		})
	}
}

// A turn that has begun without thinking continues without it, because the API
// would otherwise reject the request. The next turn uses thinking again.
func TestThinkingIsTurnedOnWithinATurn(t *testing.T) {
	turn := []conversation.Message{
		conversation.Text(conversation.User, "hi"),
		{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{ID: "call_1", Name: "Read", Args: []byte(`{}`)}}}},
		{Role: conversation.User, Blocks: []conversation.Block{{Result: &conversation.ToolResult{CallID: "call_1", Text: "x"}}}},
	}
	if body, _ := ask(t, anthropic.Config{Thinking: 2048}, turn...); strings.Contains(body, `"thinking"`) {
		t.Errorf("within the turn: %s", body)
	}
	turn = append(turn, conversation.Text(conversation.Assistant, "done"), conversation.Text(conversation.User, "more"))
	if body, _ := ask(t, anthropic.Config{Thinking: 2048}, turn...); !strings.Contains(body, `"budget_tokens":2048`) {
		t.Errorf("in the next turn: %s", body)
	}
}
