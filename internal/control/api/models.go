package api

import (
	"cmp"
	"net/http"
	"slices"

	"aloft/internal/account"
	"aloft/internal/control/model"
)

type modelListItemJSON struct {
	_           struct{} `json:"-" additionalProperties:"true"`
	ID          string   `json:"id" minLength:"1"`
	DisplayName string   `json:"displayName" minLength:"1"`
	Aliases     []string `json:"aliases,omitempty" nullable:"false"`
}

type listModelsResponseJSON struct {
	_     struct{}            `json:"-" additionalProperties:"true"`
	Items []modelListItemJSON `json:"items" nullable:"false"`
}

// listModels lists the default first: many clients take the first.
func (s *server) listModels(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	first, err := s.teamModel(r.Context())
	if err != nil {
		return err
	}
	first = cmp.Or(first, s.DefaultModel)
	models := slices.Clone(s.Models)
	slices.SortStableFunc(models, func(a, b model.Info) int {
		return cmp.Compare(rank(a, first), rank(b, first))
	})
	out := listModelsResponseJSON{Items: []modelListItemJSON{}}
	for _, m := range models {
		item := modelListItemJSON{ID: m.ID, DisplayName: cmp.Or(m.DisplayName, m.ID)}
		if m.ID == first && m.ID != "default" {
			item.Aliases = []string{"default"}
		}
		out.Items = append(out.Items, item)
	}
	return writeJSON(w, http.StatusOK, out)
}

func rank(m model.Info, first string) int {
	if m.ID == first {
		return 0
	}
	return 1
}
