package modelchoice

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/model"
)

type modelListItemJSON struct {
	_           struct{}                       `json:"-" additionalProperties:"true"`
	ID          string                         `json:"id" minLength:"1"`
	DisplayName string                         `json:"displayName" minLength:"1"`
	Description string                         `json:"description,omitempty" minLength:"1"`
	Aliases     []string                       `json:"aliases,omitempty" nullable:"false"`
	Parameters  []modelParameterDefinitionJSON `json:"parameters,omitempty" nullable:"false"`
	Variants    []modelVariantJSON             `json:"variants,omitempty" nullable:"false"`
}

type modelParameterDefinitionJSON struct {
	_           struct{}                            `json:"-" additionalProperties:"true"`
	ID          string                              `json:"id" minLength:"1"`
	DisplayName string                              `json:"displayName,omitempty" minLength:"1"`
	Values      []modelParameterValueDefinitionJSON `json:"values" minItems:"1" nullable:"false"`
}

type modelParameterValueDefinitionJSON struct {
	_           struct{} `json:"-" additionalProperties:"true"`
	Value       string   `json:"value" minLength:"1"`
	DisplayName string   `json:"displayName,omitempty" minLength:"1"`
}

type modelVariantJSON struct {
	_           struct{}         `json:"-" additionalProperties:"true"`
	Params      []ModelParamJSON `json:"params" nullable:"false"`
	DisplayName string           `json:"displayName" minLength:"1"`
	Description string           `json:"description,omitempty" minLength:"1"`
	IsDefault   bool             `json:"isDefault,omitempty"`
}

type listModelsResponseJSON struct {
	_     struct{}            `json:"-" additionalProperties:"true"`
	Items []modelListItemJSON `json:"items" nullable:"false"`
}

// listModels lists the default model first, because many clients use the first
// model.
func (s *API) listModels(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	first, err := s.Choices().TeamDefault(r.Context())
	if err != nil {
		return err
	}
	first = model.ParseRef(cmp.Or(first, s.DefaultModel)).ID
	models := slices.Clone(s.Models)
	slices.SortStableFunc(models, func(a, b model.Info) int {
		return cmp.Compare(rank(a, first), rank(b, first))
	})
	out := listModelsResponseJSON{Items: []modelListItemJSON{}}
	for _, m := range models {
		item := modelListItemJSON{
			ID: m.ID, DisplayName: cmp.Or(m.DisplayName, m.ID), Description: m.Description,
			Parameters: parametersOf(m), Variants: variantsOf(m),
		}
		if m.ID == first && m.ID != agent.DefaultModel {
			item.Aliases = []string{agent.DefaultModel}
		}
		out.Items = append(out.Items, item)
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func rank(m model.Info, first string) int {
	if m.ID == first {
		return 0
	}
	return 1
}

func parametersOf(m model.Info) (out []modelParameterDefinitionJSON) {
	for _, p := range m.Params {
		d := modelParameterDefinitionJSON{ID: p.ID, DisplayName: p.DisplayName()}
		for _, v := range p.Values {
			d.Values = append(d.Values, modelParameterValueDefinitionJSON{Value: v, DisplayName: p.DisplayValue(v)})
		}
		out = append(out, d)
	}
	return out
}

// variantsOf lists the model with its defaults, and once for each non-default
// value of each parameter. A model without parameters has no variants.
func variantsOf(m model.Info) (out []modelVariantJSON) {
	if len(m.Params) == 0 {
		return nil
	}
	name := cmp.Or(m.DisplayName, m.ID)
	params := []ModelParamJSON{}
	for _, p := range m.Params {
		if p.Default != "" {
			params = append(params, ModelParamJSON{ID: p.ID, Value: p.Default})
		}
	}
	out = append(out, modelVariantJSON{Params: params, DisplayName: name, Description: m.Description, IsDefault: true})
	for _, p := range m.Params {
		for _, v := range p.Values {
			if v == p.Default {
				continue
			}
			other := slices.DeleteFunc(slices.Clone(params), func(o ModelParamJSON) bool { return o.ID == p.ID })
			out = append(out, modelVariantJSON{
				Params:      append(other, ModelParamJSON{ID: p.ID, Value: v}),
				DisplayName: fmt.Sprintf("%s (%s: %s)", name, p.DisplayName(), p.DisplayValue(v)),
			})
		}
	}
	return out
}

// Choose returns the reference to store for the model that a request names, as
// [agents.Models.Choose] does.
func (s *API) Choose(ctx context.Context, in *ModelRefJSON) (string, error) {
	return s.Choices().Choose(ctx, in.Ref())
}

// ModelRefOf splits a stored reference into its id and params.
func ModelRefOf(name string) (id string, params []ModelParamJSON) {
	ref := model.ParseRef(name)
	for _, s := range ref.Settings {
		params = append(params, ModelParamJSON{ID: s.ID, Value: s.Value})
	}
	return ref.ID, params
}

// ModelRefJSON names a model in a request.
type ModelRefJSON struct {
	_      struct{}         `json:"-" additionalProperties:"true"`
	ID     string           `json:"id" minLength:"1" doc:"an id from GET /v1/models, or default"`
	Params []ModelParamJSON `json:"params,omitempty" nullable:"false" doc:"parameters of the model in GET /v1/models; absent ones have the server's defaults"`
}

// Ref returns the reference to the model as requested, or nil if in is nil.
func (in *ModelRefJSON) Ref() *model.Ref {
	if in == nil {
		return nil
	}
	ref := &model.Ref{ID: in.ID}
	for _, p := range in.Params {
		ref.Settings = append(ref.Settings, model.Setting{ID: p.ID, Value: p.Value})
	}
	return ref
}

// ModelParamJSON is a parameter of a model.
type ModelParamJSON struct {
	_     struct{} `json:"-" additionalProperties:"true"`
	ID    string   `json:"id" minLength:"1"`
	Value string   `json:"value" minLength:"1"`
}

// IDs returns the ids of the models that agents can use.
func (s *API) IDs() []string {
	ids := []string{agent.DefaultModel}
	for _, m := range s.Models {
		ids = append(ids, cmp.Or(m.ID, agent.DefaultModel))
	}
	return ids
}
