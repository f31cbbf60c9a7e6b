package main

import (
	"cmp"
	"fmt"

	"aloft/internal/control/model"
	"aloft/internal/control/model/anthropic"
	"aloft/internal/control/model/google"
	"aloft/internal/control/model/openai"
	"aloft/internal/control/model/scripted"
	"aloft/internal/fault"
)

// models are those of the configuration.
type models struct {
	byID     map[string]configured
	infos    []model.Info
	fallback string // the id that is used where none is named
}

type configured struct {
	model model.Model
	info  model.Info
}

// newModels makes the models of the configuration. It connects to none.
func newModels(c serverConfig) (*models, error) {
	m := &models{byID: map[string]configured{}, fallback: cmp.Or(c.DefaultModel, c.Models[0].ID)}
	for _, mc := range c.Models {
		made, err := newModel(mc)
		if err != nil {
			return nil, usageError{fmt.Errorf("model %s: %w", mc.ID, err)}
		}
		info := model.Lookup(mc.Name)
		info.ID = mc.ID
		info.DisplayName = cmp.Or(info.DisplayName, mc.ID)
		info.ContextWindow = cmp.Or(mc.ContextWindow, info.ContextWindow)
		info.MaxOutput = cmp.Or(mc.MaxOutput, info.MaxOutput)
		info.Price = mc.Price.price()
		m.byID[mc.ID] = configured{made, info}
		m.infos = append(m.infos, info)
	}
	return m, nil
}

func newModel(c modelConfig) (model.Model, error) {
	switch c.Provider {
	case "anthropic":
		return anthropic.New(anthropic.Config{Name: c.Name, BaseURL: c.BaseURL, Key: c.APIKey}), nil
	case "openai":
		return openai.New(openai.Config{Name: c.Name, API: openai.API(c.API), BaseURL: c.BaseURL, Key: c.APIKey})
	case "google":
		return google.New(google.Config{Name: c.Name, BaseURL: c.BaseURL, Key: c.APIKey})
	default:
		return scripted.New(scripted.Config{File: c.Script})
	}
}

// find returns the model of that id, "" for the default. It is
// [schedule.Config.Model].
func (m *models) find(id string) (model.Model, model.Info, error) {
	c, ok := m.byID[cmp.Or(id, m.fallback)]
	if !ok {
		return nil, model.Info{}, fault.NotFound("the model %q is no longer in the server's configuration", id).
			Named("model_not_found").Hint("start a new agent with another model, or put it back")
	}
	return c.model, c.info, nil
}
