package environments

import (
	"fmt"
	"net/http"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"

	"github.com/rogpeppe/go-internal/diff"
)

type environmentDiffJSON struct {
	_    struct{} `json:"-" additionalProperties:"true"`
	From string   `json:"from" doc:"the older version; empty if there is none"`
	To   string   `json:"to" doc:"the newer version"`
	Diff string   `json:"diff" doc:"in the format of diff -u; empty if the versions are the same"`
}

// environmentDiff shows the differences between two versions.
func (s *API) environmentDiff(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	e, err := s.environment(r.Context(), who, r.PathValue("id"), false)
	if err != nil {
		return err
	}
	asked := r.URL.Query()
	from, to := asked.Get("from"), asked.Get("to")
	if to == "" {
		to = e.VersionID
	}
	var older, newer *environment.Version
	p := store.Page{Limit: rest.MaxLimit}
	for more := true; more && (newer == nil || older == nil); {
		list, err := s.Saved.EnvironmentHistory(r.Context(), e.ID, p)
		if err != nil {
			return fmt.Errorf("list versions: %w", err)
		}
		for _, v := range list {
			if v.ID == from || from == "" && newer != nil && older == nil {
				older = &v
			}
			if v.ID == to {
				newer = &v
			}
			p.BeforeTime, p.BeforeID = v.CreatedAt, v.ID
		}
		more = len(list) == rest.MaxLimit
	}
	switch {
	case newer == nil:
		return fault.NotFound("the environment has no version %s", fault.Quoted(to)).At("to")
	case older == nil && from != "":
		return fault.NotFound("the environment has no version %s", fault.Quoted(from)).At("from")
	case older == nil: // in the first version everything is new
		older = &environment.Version{}
	}
	text := diff.Diff("a/environment.json", []byte(older.Text), "b/environment.json", []byte(newer.Text))
	return rest.WriteJSON(w, http.StatusOK, environmentDiffJSON{From: older.ID, To: newer.ID, Diff: string(text)})
}
