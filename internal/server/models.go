package server

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"

	"aloft/internal/control/model"
	"aloft/internal/control/model/anthropic"
	"aloft/internal/control/model/google"
	"aloft/internal/control/model/openai"
	"aloft/internal/control/model/scripted"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// models holds the configured models. It is safe for concurrent use.
type models struct {
	configs  map[string]ModelConfig // by id
	infos    []model.Info
	fallback string // id of the default model

	mu   sync.Mutex
	made map[string]configured // by model.Ref
}

type configured struct {
	model model.Model
	info  model.Info
}

// newModels returns the models of the configuration. It does not connect to providers.
func newModels(c Config) (*models, error) {
	m := &models{configs: map[string]ModelConfig{}, made: map[string]configured{}, fallback: cmp.Or(c.DefaultModel, c.Models[0].ID)}
	for _, mc := range c.Models {
		m.configs[mc.ID] = mc
		m.infos = append(m.infos, mc.info())
		if _, _, err := m.find(mc.ID); err != nil {
			return nil, UsageError{fmt.Errorf("model %s: %w", mc.ID, err)}
		}
	}
	return m, nil
}

func newModel(c ModelConfig, info model.Info, settings []model.Setting) (model.Model, error) {
	serial := c.ParallelToolCalls != nil && !*c.ParallelToolCalls
	schema := info.Traits.Schema && info.Traits.Provider == c.Provider
	thinking, effort := info.Value(settings, model.ParamThinking), info.Value(settings, model.ParamEffort)
	switch c.Provider {
	case "anthropic":
		return anthropic.New(anthropic.Config{
			Name: c.Name, BaseURL: c.BaseURL, Key: c.APIKey, Effort: effort, MaxOutput: info.MaxOutput, Serial: serial, Schema: schema,
			Thinking: claudeThinking(c, info.Traits.Thinking, thinking),
			LongBeta: info.Traits.LongBeta && info.Value(settings, model.ParamContext) == model.LongContext,
		}), nil
	case "openai":
		return openai.New(openai.Config{Name: c.Name, API: openai.API(c.API), BaseURL: c.BaseURL, Key: c.APIKey, Effort: effort, Serial: serial, Schema: schema})
	case "google":
		return google.New(google.Config{Name: c.Name, BaseURL: c.BaseURL, Key: c.APIKey, Effort: effort, Thinking: geminiThinking(info.Traits.Thinking, thinking), Schema: schema})
	default:
		return scripted.New(scripted.Config{File: c.Script, Text: c.ScriptText})
	}
}

// claudeThinking returns the thinking budget to request from a Claude model. For an
// unknown model the configuration says whether it has a budget.
func claudeThinking(c ModelConfig, mode model.Mode, value string) int {
	budgeted := mode == model.Budgeted || mode == model.NoThinking && c.ThinkingBudget > 0
	switch {
	case mode == model.AlwaysThink:
		return anthropic.Adaptive
	case value == "true" && budgeted:
		return cmp.Or(c.ThinkingBudget, defaultThinkingBudget)
	case value == "true":
		return anthropic.Adaptive
	case value == "false" && mode == model.ByDefault:
		return anthropic.Disabled
	}
	return 0
}

// geminiThinking returns the thinking budget to request from a Gemini model.
func geminiThinking(mode model.Mode, value string) int {
	switch {
	case value == "false":
		return google.Disabled
	case value == "true" || mode == model.AlwaysThink:
		return google.Summarized
	}
	return 0
}

// fast returns a function that returns the reference to the model for small
// tasks: the team's choice, or else the server's. "" means the agent's own
// model.
func (m *models) fast(server string, rules store.Rules) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		h, err := store.Settings(ctx, rules)
		if err != nil {
			return "", err
		}
		if team := h.Now().FastModel; team != "" {
			if _, _, err := m.find(team); err == nil {
				return team, nil
			}
		}
		return server, nil
	}
}

// find returns the model with the given id, which may include settings in the format of
// [model.Ref]; "" is the default model. It implements [schedule.Config.Model].
func (m *models) find(name string) (model.Model, model.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ref := model.ParseRef(cmp.Or(name, m.fallback))
	name = ref.String()
	if made, ok := m.made[name]; ok {
		return made.model, made.info, nil
	}
	c, ok := m.configs[ref.ID]
	if !ok {
		return nil, model.Info{}, fault.NotFound("the model %q is no longer in the server's configuration", ref.ID).
			Named("model_not_found").Hint("start a new agent with another model, or restore this one in the configuration")
	}
	info := set(c.info(), ref.Settings)
	if err := info.Check(ref.Settings); err != nil { // the configuration may have changed since the agent was created
		return nil, model.Info{}, fault.Of(err).Named("model_not_found")
	}
	made, err := newModel(c, info, ref.Settings)
	if err != nil {
		return nil, model.Info{}, err
	}
	m.made[name] = configured{made, info}
	return made, info, nil
}

// ReadScripts returns the texts of the scripts, by file path. It omits files
// that cannot be read, because opening their models reports the error.
func (c Config) ReadScripts() map[string][]byte {
	texts := map[string][]byte{}
	for _, m := range c.Models {
		if text, err := os.ReadFile(m.Script); err == nil {
			texts[m.Script] = text
		}
	}
	return texts
}

// UseScripts makes models use the texts of scripts instead of reading the files.
func (c Config) UseScripts(texts map[string][]byte) {
	for i, m := range c.Models {
		if text, ok := texts[m.Script]; ok {
			c.Models[i].ScriptText = text
		}
	}
}
