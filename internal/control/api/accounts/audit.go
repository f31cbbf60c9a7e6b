package accounts

import (
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
)

type auditEntryJSON struct {
	_       struct{}  `json:"-" additionalProperties:"true"`
	ID      int64     `json:"id"`
	Time    time.Time `json:"time"`
	UserID  int64     `json:"userId,omitempty" doc:"absent if the user is unknown"`
	User    string    `json:"user,omitempty" doc:"name of the user"`
	Address string    `json:"address" doc:"client address of the request"`
	Action  string    `json:"action" doc:"the operation of this API"`
	Target  string    `json:"target,omitempty" doc:"object of the action"`
	Outcome string    `json:"outcome" doc:"ok, or the code of the error"`
}

type listAuditResponseJSON struct {
	_          struct{}         `json:"-" additionalProperties:"true"`
	Items      []auditEntryJSON `json:"items" nullable:"false"`
	NextBefore int64            `json:"nextBefore,omitempty" doc:"value of before for the next page"`
}

func (s *API) listAudit(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	q := r.URL.Query()
	limit, err := rest.Integer(q, "limit", rest.StandardLimit, 1, rest.MaxLimit)
	if err != nil {
		return err
	}
	before, err := rest.Integer(q, "before", 0, 0, 1<<53)
	if err != nil {
		return err
	}
	out := listAuditResponseJSON{Items: []auditEntryJSON{}}
	all, err := s.AuditLog.Audit(r.Context(), int64(before), limit+1)
	if err != nil {
		return err
	}
	if len(all) > limit {
		all = all[:limit]
		out.NextBefore = all[limit-1].ID
	}
	names := map[int64]string{0: ""}
	for _, a := range all {
		if _, ok := names[a.UserID]; !ok {
			names[a.UserID] = s.NameOf(r.Context(), a.UserID)
		}
		out.Items = append(out.Items, auditEntryJSON{
			ID: a.ID, Time: rest.Stamp(a.Time), UserID: a.UserID, User: names[a.UserID], Address: a.Address, Action: a.Action, Target: a.Target, Outcome: a.Outcome,
		})
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}
