package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"aloft/internal/account"
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

// audited reports whether calls of the route are recorded. It is true for
// changes that outlast an agent; an agent's own changes are in its journal.
func (rt route) audited() bool {
	if rt.open || rt.method == http.MethodGet {
		return false
	}
	return rt.method == http.MethodDelete || !strings.HasPrefix(rt.path, "/v1/agents") && !strings.HasPrefix(rt.path, legacyPrefix)
}

// audit records what a user did or tried to do; userID is 0 if the user is
// unknown. If the entry cannot be written, the error is logged and the action
// stands.
func (s *server) audit(r *http.Request, action string, userID int64, target string, err error) {
	if s.AuditLog == nil {
		return
	}
	a := account.Audit{Time: time.Now(), UserID: userID, Address: s.addressOf(r), Action: action, Target: target, Outcome: "ok"}
	if err != nil {
		a.Outcome = faultOf(err).Code
	}
	const most = 200 // bytes; anyone can try to sign in with any address
	a.Target = strings.ToValidUTF8(a.Target[:min(len(a.Target), most)], "")
	if err := s.AuditLog.AddAudit(context.WithoutCancel(r.Context()), a); err != nil {
		s.Logger.ErrorContext(r.Context(), "cannot write the audit log", "action", action, "user", userID, "error", err)
	}
}

// targetOf returns what a request is about: the values of its path parameters.
func targetOf(rt route, r *http.Request) string {
	var all []string
	for _, m := range pathParam.FindAllStringSubmatch(rt.path, -1) {
		all = append(all, r.PathValue(m[1]))
	}
	return strings.Join(all, " ")
}

func (s *server) listAudit(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	q := r.URL.Query()
	limit, err := integer(q, "limit", standardLimit, 1, maxLimit)
	if err != nil {
		return err
	}
	before, err := integer(q, "before", 0, 0, 1<<53)
	if err != nil {
		return err
	}
	out := listAuditResponseJSON{Items: []auditEntryJSON{}}
	if s.AuditLog == nil {
		return writeJSON(w, http.StatusOK, out)
	}
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
			names[a.UserID] = s.nameOf(r.Context(), a.UserID)
		}
		out.Items = append(out.Items, auditEntryJSON{
			ID: a.ID, Time: stamp(a.Time), UserID: a.UserID, User: names[a.UserID], Address: a.Address, Action: a.Action, Target: a.Target, Outcome: a.Outcome,
		})
	}
	return writeJSON(w, http.StatusOK, out)
}
