package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"aloft/internal/control/model"
)

// defaultThinkingBudget is a number of tokens. It is enough for hard tasks, and
// is half of the smallest reply limit of a thinking model.
const defaultThinkingBudget = 16_000

// minThinkingBudget is Anthropic's lower bound, in tokens.
const minThinkingBudget = 1024

// defaultFallbackAfter is the default number of failed attempts. Including the
// delays, they take about three seconds.
const defaultFallbackAfter = 3

// checkFallbacks rejects fallbacks that are not configured or lead back to the model
// itself.
func checkFallbacks(models []ModelConfig) error {
	byID := map[string]*ModelConfig{}
	for i := range models {
		byID[models[i].ID] = &models[i]
	}
	for i, m := range models {
		if m.FallbackAfter < 0 {
			return fmt.Errorf("models[%d].fallback_after: %d must not be negative", i, m.FallbackAfter)
		}
		if m.Fallback == "" && m.FallbackAfter != 0 {
			return fmt.Errorf("models[%d].fallback_after: needs fallback", i)
		}
		seen := map[string]bool{m.ID: true}
		for at := m.Fallback; at != ""; {
			ref := model.ParseRef(at)
			next := byID[ref.ID]
			if next == nil {
				return fmt.Errorf("models[%d].fallback: no model has the id %q", i, ref.ID)
			}
			info := next.info()
			if err := info.Check(ref.Settings); err != nil {
				return fmt.Errorf("models[%d].fallback: %w", i, err)
			}
			if seen[ref.ID] {
				return fmt.Errorf("models[%d].fallback: %q leads back to itself", i, ref.ID)
			}
			seen[ref.ID] = true
			at = next.Fallback
		}
	}
	return nil
}

// sendable lists the parameters that each provider accepts.
var sendable = map[string][]string{
	"anthropic": {model.ParamThinking, model.ParamEffort, model.ParamContext},
	"openai":    {model.ParamEffort},
	"google":    {model.ParamThinking, model.ParamEffort},
}

// checkParams rejects parameters that the provider cannot send or the model does not
// offer.
func (c *ModelConfig) checkParams(at string) error {
	if c.ThinkingBudget != 0 && c.ThinkingBudget < minThinkingBudget {
		return fmt.Errorf("%s.thinking_budget: %d is too small: must be at least %d tokens", at, c.ThinkingBudget, minThinkingBudget)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Offers)) {
		if !slices.Contains(sendable[c.Provider], id) {
			return fmt.Errorf("%s.offers: provider %s has no parameter %q; it supports: %s", at, c.Provider, id, cmp.Or(strings.Join(sendable[c.Provider], ", "), "none"))
		}
		if slices.Contains(c.Offers[id], "") {
			return fmt.Errorf("%s.offers.%s: values must not be empty", at, id)
		}
	}
	info := c.info()
	for _, id := range slices.Sorted(maps.Keys(c.Params)) {
		i := slices.IndexFunc(info.Params, func(p model.Param) bool { return p.ID == id })
		if i < 0 {
			return fmt.Errorf("%s.params: model %s does not offer %q; if it does, list the values in offers", at, c.ID, id)
		}
		if value := fmt.Sprint(c.Params[id]); !slices.Contains(info.Params[i].Values, value) {
			return fmt.Errorf("%s.params.%s: invalid value %q: must be one of %s", at, id, value, strings.Join(info.Params[i].Values, ", "))
		}
	}
	return nil
}

// info returns the known properties of the model, overridden by the
// configuration.
func (c *ModelConfig) info() model.Info {
	info := model.Lookup(c.Name)
	info.ID = c.ID
	info.DisplayName, info.Description = cmp.Or(info.DisplayName, c.ID), c.Description
	info.MaxOutput = cmp.Or(c.MaxOutput, info.MaxOutput)
	info.Price = c.Price.price()
	for _, p := range info.Traits.Offered(c.Provider) {
		if _, own := c.Offers[p.ID]; !own && (p.ID != model.ParamContext || c.ContextWindow == 0) {
			info.Params = append(info.Params, p)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Offers)) {
		if values := c.Offers[id]; len(values) > 0 {
			info.Params = append(info.Params, model.Param{ID: id, Values: values})
		}
	}
	for i := range info.Params {
		if value, ok := c.Params[info.Params[i].ID]; ok {
			info.Params[i].Default = fmt.Sprint(value)
		}
	}
	info.ContextWindow = cmp.Or(c.ContextWindow, info.ContextWindow)
	info.Fallback, info.FallbackAfter = c.Fallback, cmp.Or(c.FallbackAfter, defaultFallbackAfter)
	return info
}

// set returns info with the given settings, and the context window that they select.
func set(info model.Info, settings []model.Setting) model.Info {
	info.Ref = model.Ref{ID: info.ID, Settings: settings}.String()
	switch info.Value(settings, model.ParamContext) {
	case model.LongContext:
		info.ContextWindow = 1_000_000
	case model.ShortContext:
		info.ContextWindow = 200_000
	}
	return info
}
