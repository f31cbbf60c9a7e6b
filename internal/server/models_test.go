package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/model"
	"aloft/internal/control/model/anthropic"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

func TestParamsOfConfiguration(t *testing.T) {
	for _, c := range []struct{ name, config, says string }{
		{"NoSuchParam", "{id: a, provider: anthropic, name: claude-opus-4-6, params: {speed: 1}}", `models[0].params: model a does not offer "speed"`},
		{"NoSuchValue", "{id: a, provider: anthropic, name: claude-opus-4-6, params: {effort: xhigh}}", "models[0].params.effort: invalid value \"xhigh\": must be one of low, medium, high, max"},
		{"NotWithThatProvider", "{id: a, provider: openai, name: claude-opus-4-6, params: {thinking: true}}", "does not offer"},
		{"OfferOfAnotherProvider", "{id: a, provider: openai, offers: {context: [1m]}}", `provider openai has no parameter "context"; it supports: effort`},
		{"OfferOfScripted", "{id: a, provider: scripted, offers: {effort: [low]}}", "it supports: none"},
		{"EmptyValue", "{id: a, provider: openai, offers: {effort: ['']}}", "models[0].offers.effort: values must not be empty"},
		{"SmallBudget", "{id: a, provider: anthropic, thinking_budget: 100}", "models[0].thinking_budget: 100"},
		{"Brackets", "{id: 'a[b=c]', provider: anthropic}", "models[0].id: \"a[b=c]\" must not contain brackets"},
		{"Known", "{id: a, provider: anthropic, name: claude-opus-4-6, params: {thinking: false, effort: high, context: 1m}}", ""},
		{"Offered", "{id: a, provider: openai, name: house, offers: {effort: [low, max]}, params: {effort: max}}", ""},
		{"NotOffered", "{id: a, provider: anthropic, name: claude-opus-4-6, offers: {effort: []}, params: {effort: low}}", "does not offer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, "models:\n  - "+c.config+"\n")
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

// Model parameters in the configuration or in a request are sent to the
// provider and reported by the API.
func TestParamsAreSent(t *testing.T) {
	const id = "test-model-1" // the test servers' only model
	for _, c := range []struct {
		name, config, ref string
		window            int
		body              []string
		beta              string
	}{
		{"Defaults", "provider: anthropic, offers: {thinking: ['true', 'false'], effort: [low, high]}, params: {thinking: true, effort: high}", "m",
			128_000, []string{`"type":"adaptive"`, `"effort":"high"`}, ""},
		{"OfTheRequest", "provider: anthropic, offers: {thinking: ['true', 'false'], effort: [low, high]}, params: {thinking: true, effort: high}", "m[effort=low,thinking=false]",
			128_000, []string{`"effort":"low"`}, ""},
		{"Budget", "provider: anthropic, offers: {thinking: ['true']}, params: {thinking: true}, thinking_budget: 2000", "m",
			128_000, []string{`"budget_tokens":2000`}, "interleaved-thinking-2025-05-14"},
		{"OneCall", "provider: anthropic, parallel_tool_calls: false", "m", 128_000, []string{`"tool_choice":{"disable_parallel_tool_use":true,"type":"auto"}`}, ""},
		{"OneCallOfOpenAI", "provider: openai, parallel_tool_calls: false", "m", 128_000, []string{`"parallel_tool_calls":false`}, ""},
		{"OneCallOfChat", "provider: openai, api: chat, parallel_tool_calls: false", "m", 128_000, []string{`"parallel_tool_calls":false`}, ""},
		{"LongContext", "provider: anthropic, offers: {context: [200k, 1m]}", "m[context=1m]", 1_000_000, nil, ""},
		{"OpenAI", "provider: openai, offers: {effort: [low, high]}", "m[effort=low]", 128_000, []string{`"reasoning":{"effort":"low"`, `"store":false`, `reasoning.encrypted_content`}, ""},
		{"Google", "provider: google, offers: {effort: [low, high], thinking: ['true']}, params: {thinking: true}", "m[effort=low]", 128_000, []string{`"thinkingLevel":"LOW"`, `"includeThoughts":true`}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := map[bool]func(testing.TB, ...modeltest.Reply) *modeltest.Server{true: modeltest.NewAnthropic}[strings.Contains(c.config, "anthropic")]
			switch {
			case strings.Contains(c.config, "api: chat"):
				start = modeltest.NewChat
			case strings.Contains(c.config, "openai"):
				start = modeltest.NewResponses
			case strings.Contains(c.config, "google"):
				start = modeltest.NewGoogle
			}
			s := start(t, modeltest.Reply{Text: "ok"})
			config, err := load(t, "models:\n  - {id: m, name: "+id+", api_key: "+modeltest.Key+", base_url: '"+s.URL+"', "+c.config+"}\n")
			if err != nil {
				t.Fatal(err)
			}
			models, err := newModels(config)
			if err != nil {
				t.Fatal(err)
			}
			m, info, err := models.find(c.ref)
			if err != nil {
				t.Fatal(err)
			}
			if info.ID != "m" || info.Name() != c.ref || info.ContextWindow != c.window {
				t.Errorf("known: %q, %q, a window of %d", info.ID, info.Name(), info.ContextWindow)
			}
			for _, err := range m.Stream(t.Context(), model.Request{Tools: modeltest.Tools(), Messages: []conversation.Message{conversation.Text(conversation.User, "hi")}}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			asked := s.Requests()[0]
			for _, want := range c.body {
				if !strings.Contains(string(asked.Body), want) {
					t.Errorf("no %s in %s", want, asked.Body)
				}
			}
			if got := asked.Header.Get("Anthropic-Beta"); got != c.beta {
				t.Errorf("beta header %q", got)
			}
		})
	}
}

// Claude's thinking is enabled by default, with the options that each model
// needs.
func TestClaudeThinks(t *testing.T) {
	for name, want := range map[string][2]int{ // budgets with thinking enabled and disabled
		"claude-sonnet-4-5": {defaultThinkingBudget, 0},
		"claude-opus-4-6":   {anthropic.Adaptive, 0},
		"claude-opus-5":     {anthropic.Adaptive, anthropic.Disabled},
		"claude-opus-5-5":   {anthropic.Adaptive, anthropic.Adaptive},
	} {
		mode := model.Lookup(name).Traits.Thinking
		if got := [2]int{claudeThinking(ModelConfig{}, mode, "true"), claudeThinking(ModelConfig{}, mode, "false")}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		c := ModelConfig{ID: "m", Provider: "anthropic", Name: name}
		if v := c.info().Value(nil, model.ParamThinking); v != "true" && mode != model.AlwaysThink {
			t.Errorf("%s: thinking is %q by default", name, v)
		}
	}
}

// An agent may have been created with a parameter that its model no longer
// supports.
func TestParamThatIsNoLongerOffered(t *testing.T) {
	config, err := load(t, "models:\n  - {id: m, provider: openai, name: gpt-5, api_key: x}\n")
	if err != nil {
		t.Fatal(err)
	}
	models, err := newModels(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := models.find("m[effort=max]"); fault.Of(err).Code != "model_not_found" || !strings.Contains(fault.Of(err).Advice, "minimal, low, medium, high") {
		t.Errorf("got %+v", fault.Of(err))
	}
}

// The team's fast model replaces the server's, unless it is no longer configured.
func TestFastModel(t *testing.T) {
	config, err := load(t, "models:\n  - {id: a, provider: scripted}\n  - {id: b, provider: scripted}\n")
	if err != nil {
		t.Fatal(err)
	}
	models, err := newModels(config)
	if err != nil {
		t.Fatal(err)
	}
	rules := teamRules{}
	for team, want := range map[string]string{"": "a", "b": "b", "gone": "a"} {
		if err := store.PutSettings(t.Context(), rules, account.History{}.With(account.Settings{FastModel: team}, time.Now())); err != nil {
			t.Fatal(err)
		}
		if got, err := models.fast("a", rules)(t.Context()); got != want || err != nil {
			t.Errorf("the team's is %q: got %q, %v; want %q", team, got, err, want)
		}
	}
}

// teamRules are files of the team, by name.
type teamRules map[string]string

func (r teamRules) Rule(_ context.Context, _, name string) (string, error) { return r[name], nil }

func (r teamRules) SetRule(_ context.Context, _, name, text string) error {
	r[name] = text
	return nil
}
