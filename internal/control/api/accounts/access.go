package accounts

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// Values of accessJSON.Mode, which decides which repositories members can
// reach.
const (
	byCredentials = "credentials"
	byAllowList   = "allow-list"
)

// maxAccessEntries is how many repositories one list may have.
const maxAccessEntries = 1000

type accessJSON struct {
	_        struct{}           `json:"-" additionalProperties:"true"`
	Mode     string             `json:"mode" enum:"credentials,allow-list" doc:"credentials: members may run agents on every repository that the credentials in the server's configuration can reach. allow-list: only on listed repositories; admins and owners are not limited"`
	Everyone []string           `json:"everyone" nullable:"false" doc:"for all members: host/owner/name, host/owner/* or *"`
	Members  []memberAccessJSON `json:"members" nullable:"false" doc:"additional repositories of single members; members see only their own"`
}

type memberAccessJSON struct {
	_            struct{} `json:"-" additionalProperties:"true"`
	UserID       int64    `json:"userId" minimum:"1"`
	Repositories []string `json:"repositories" nullable:"false"`
}

type updateAccessRequestJSON struct {
	_        struct{}           `json:"-" additionalProperties:"true"`
	Mode     *string            `json:"mode,omitempty" enum:"credentials,allow-list"`
	Everyone *[]string          `json:"everyone,omitempty" maxItems:"1000" nullable:"false"`
	Members  []memberAccessJSON `json:"members,omitempty" nullable:"false" doc:"each entry replaces that member's list; other members' lists are not changed; an empty list removes it"`
}

func (s *API) accessRoutes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/repository-access", ID: "getRepositoryAccess", Summary: "Show which repositories members may run agents on",
			Status: 200, Out: accessJSON{}, Handle: s.getAccess},
		{Method: "PATCH", Path: "/v1/repository-access", ID: "updateRepositoryAccess", Summary: "Set which repositories members may run agents on; for admins", Needs: account.Admin,
			In: updateAccessRequestJSON{}, Status: 200, Out: accessJSON{}, Handle: s.updateAccess},
	}
}

func accessOf(a account.Access, who account.APIKey) accessJSON {
	out := accessJSON{Mode: byCredentials, Everyone: append([]string{}, a.Everyone...), Members: []memberAccessJSON{}}
	if a.Limited {
		out.Mode = byAllowList
	}
	for _, id := range slices.Sorted(maps.Keys(a.Members)) {
		if who.MaySee(id) {
			out.Members = append(out.Members, memberAccessJSON{UserID: id, Repositories: append([]string{}, a.Members[id]...)})
		}
	}
	return out
}

func (s *API) getAccess(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := store.Access(r.Context(), s.Rules)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, accessOf(a, who))
}

func (s *API) updateAccess(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	var in updateAccessRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	s.settling.Lock() // two concurrent updates would undo each other
	defer s.settling.Unlock()
	a, err := store.Access(r.Context(), s.Rules)
	if err != nil {
		return err
	}
	if err := s.setAccess(r.Context(), &a, in); err != nil {
		return err
	}
	if err := store.SetAccess(r.Context(), s.Rules, a); err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, accessOf(a, who))
}

func (s *API) setAccess(ctx context.Context, to *account.Access, in updateAccessRequestJSON) (err error) {
	if in.Mode != nil {
		if *in.Mode != byCredentials && *in.Mode != byAllowList {
			return fault.Invalid("must be %s or %s", byCredentials, byAllowList).At("mode")
		}
		to.Limited = *in.Mode == byAllowList
	}
	if in.Everyone != nil {
		if to.Everyone, err = patterns(*in.Everyone, "everyone"); err != nil {
			return err
		}
	}
	for i, m := range in.Members {
		field := fmt.Sprintf("members[%d]", i)
		if _, err := s.Accounts.User(ctx, m.UserID); err != nil {
			return fault.Invalid("is not the ID of a member").Hint("list members with GET /v1/members").At(field + ".userId")
		}
		entries, err := patterns(m.Repositories, field+".repositories")
		if err != nil {
			return err
		}
		if to.Members == nil {
			to.Members = map[int64][]string{}
		}
		if to.Members[m.UserID] = entries; len(entries) == 0 {
			delete(to.Members, m.UserID)
		}
	}
	return nil
}

// patterns normalizes the entries of an allow list so that they can be
// compared.
func patterns(in []string, field string) (out []string, err error) {
	if len(in) > maxAccessEntries {
		return nil, fault.Invalid("has %d entries; the limit is %d", len(in), maxAccessEntries).At(field)
	}
	for i, text := range in {
		p := secret.Repo(text)
		if err := account.CheckPattern(p); err != nil {
			return nil, fault.Of(err).At(fmt.Sprintf("%s[%d]", field, i))
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}
