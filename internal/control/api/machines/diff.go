package machines

import (
	"fmt"
	"net/http"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
)

type diffJSON struct {
	_         struct{} `json:"-" additionalProperties:"true"`
	Diff      string   `json:"diff" doc:"in the format of git diff"`
	Truncated bool     `json:"truncated" doc:"the diff was cut off"`
}

func (s *API) getDiff(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	diff, truncated, err := s.Work.Diff(r.Context(), a.ID)
	if err != nil {
		return fmt.Errorf("diff of %s: %w", a.ID, err)
	}
	return rest.WriteJSON(w, http.StatusOK, diffJSON{Diff: diff, Truncated: truncated})
}
