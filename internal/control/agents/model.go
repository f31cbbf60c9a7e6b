package agents

import (
	"cmp"
	"context"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/allowance"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Models are the models that agents can use, and the limits of their runs.
type Models struct {
	Rules   store.Rules
	All     []model.Info
	Default string           // id of the model for requests that name none
	Limit   allowance.Amount // per run; 0 means no limit of that kind
}

// Choose returns the reference to store for a requested model. If the request
// names no model, or names "default", it returns the team's default, or "" if
// there is none. "" means the server's default at the start of each run. If
// such a request sets parameters, Choose returns the team's default, or else
// the server's current default, with these parameters.
func (m Models) Choose(ctx context.Context, ref *model.Ref) (string, error) {
	if ref != nil && ref.ID != agent.DefaultModel {
		return m.Find(*ref)
	}
	name, err := m.TeamDefault(ctx)
	if err != nil || ref == nil || len(ref.Settings) == 0 {
		return name, err
	}
	of := model.ParseRef(cmp.Or(name, m.Default))
	return m.Find(model.Ref{ID: of.ID, Settings: ref.Settings})
}

// TeamDefault returns the reference to the team's default model. It returns "" if
// none is set, or if the configuration no longer has it.
func (m Models) TeamDefault(ctx context.Context) (string, error) {
	h, err := store.Settings(ctx, m.Rules)
	if err != nil {
		return "", err
	}
	name := h.Now().DefaultModel
	if name == "" {
		return "", nil
	}
	if _, err := m.Find(model.Ref{ID: name}); err != nil {
		return "", nil //nolint:nilerr // fall back to the server's default
	}
	return name, nil
}

// Find returns the reference to store for a model id with settings. The id may
// also include settings in brackets, as [model.Ref] writes them.
func (m Models) Find(named model.Ref) (string, error) {
	ref := model.ParseRef(named.ID)
	ref.Settings = append(ref.Settings, named.Settings...)
	field := "model.id"
	known := make([]string, 0, len(m.All))
	for _, info := range m.All {
		if info.ID == ref.ID {
			if err := info.Check(ref.Settings); err != nil {
				f := fault.Of(err)
				if len(ref.Settings) == len(named.Settings) {
					field = "model." + f.Field
				}
				return "", f.At(field)
			}
			return ref.String(), nil
		}
		known = append(known, info.ID)
	}
	if named.ID == "" {
		return "", fault.Invalid("is required").At(field)
	}
	return "", fault.Invalid("no model %s", fault.Quoted(named.ID)).Named("invalid_model").
		Hint("use one of: %s", strings.Join(known, ", ")).At(field)
}

// CheckLimit rejects limits of the agent's runs that are above the team's, and
// a cost limit for a model without a known price. asked is nil if the request
// sets no limits; then the agent's own limits apply.
func (m Models) CheckLimit(ctx context.Context, asked *allowance.Amount, a agent.Agent) error {
	if asked != nil {
		a.Limit = *asked
	}
	h, err := store.Settings(ctx, m.Rules)
	if err != nil {
		return err
	}
	allowed := allowance.Strictest(m.Limit, h.At(a.CreatedAt).Limit)
	if k := a.Limit.FirstAbove(allowed); asked != nil && k != "" {
		return fault.Invalid("%s exceeds the limit of %s per run", a.Limit.Text(k), allowed.Text(k)).Named("limit_too_high").
			Hint("use a lower limit, or ask an admin to raise it: see aloft settings, or limits in the server's configuration").At("limits")
	}
	if allowance.Strictest(a.Limit, allowed).Cost > 0 {
		if err := m.CheckPrice(model.ParseRef(cmp.Or(a.Model, m.Default)).ID); err != nil {
			return fault.Of(err).At("limits")
		}
	}
	return nil
}

// CheckPrice returns nil if the price of the model is known. For the id "", all
// models must have a price.
func (m Models) CheckPrice(id string) error {
	for _, info := range m.All {
		if id == "" || info.ID == id {
			if err := info.Price.Unpriced(info.ID); err != nil {
				return err
			}
		}
	}
	return nil
}
