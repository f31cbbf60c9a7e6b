package accounts

import (
	"errors"
	"net/http"
	"net/mail"
	"strconv"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

type userJSON struct {
	_         struct{} `json:"-" additionalProperties:"true"`
	ID        int64    `json:"id"`
	Email     string   `json:"email,omitempty"`
	FirstName string   `json:"firstName,omitempty"`
	LastName  string   `json:"lastName,omitempty"`
	Role      string   `json:"role" enum:"owner,admin,member,viewer"`
	Disabled  bool     `json:"disabled,omitempty"`
}

func userOf(u account.User) userJSON {
	return userJSON{ID: u.ID, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Role: string(u.Role), Disabled: u.Disabled}
}

type listMembersResponseJSON struct {
	_     struct{}   `json:"-" additionalProperties:"true"`
	Items []userJSON `json:"items" nullable:"false"`
}

type inviteRequestJSON struct {
	_         struct{} `json:"-" additionalProperties:"true"`
	Email     string   `json:"email" format:"email"`
	FirstName string   `json:"firstName,omitempty" maxLength:"100"`
	LastName  string   `json:"lastName,omitempty" maxLength:"100"`
	Role      string   `json:"role,omitempty" enum:"owner,admin,member,viewer" doc:"default member"`
}

type inviteResponseJSON struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Member userJSON `json:"member"`
	Link   linkJSON `json:"link"`
}

type linkJSON struct {
	_         struct{}  `json:"-" additionalProperties:"true"`
	URL       string    `json:"url" doc:"one-time sign-in link; shown only in this reply"`
	ExpiresAt time.Time `json:"expiresAt"`
}

type updateMemberRequestJSON struct {
	_         struct{} `json:"-" additionalProperties:"true"`
	Email     *string  `json:"email,omitempty" format:"email"`
	FirstName *string  `json:"firstName,omitempty" maxLength:"100"`
	LastName  *string  `json:"lastName,omitempty" maxLength:"100"`
	Role      *string  `json:"role,omitempty" enum:"owner,admin,member,viewer"`
	Disabled  *bool    `json:"disabled,omitempty" doc:"the member cannot sign in, and their keys do not work"`
}

func (s *API) memberRoutes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/members", ID: "listMembers", Summary: "List the team", Status: 200, Out: listMembersResponseJSON{}, Handle: s.listMembers},
		{Method: "POST", Path: "/v1/members", ID: "inviteMember", Summary: "Add a member and create their first sign-in link; admins only", Needs: account.Admin,
			In: inviteRequestJSON{}, Status: 201, Out: inviteResponseJSON{}, Handle: s.inviteMember},
		{Method: "PATCH", Path: "/v1/members/{userId}", ID: "updateMember", Summary: "Change a member's name, e-mail address or role, or disable them; admins only", Needs: account.Admin,
			In: updateMemberRequestJSON{}, Status: 200, Out: userJSON{}, Handle: s.updateMember},
		{Method: "POST", Path: "/v1/members/{userId}/link", ID: "createSignInLink", Summary: "Create a one-time sign-in link for a member, whose use clears their password; admins only", Needs: account.Admin,
			Status: 201, Out: linkJSON{}, Handle: s.createSignInLink},
		{Method: "GET", Path: "/v1/audit", ID: "listAudit", Summary: "List changes to settings, newest first; admins only", Needs: account.Admin,
			Query: []rest.Param{
				{Name: "limit", Kind: "integer", Min: 1, Max: rest.MaxLimit, Standard: rest.StandardLimit, Words: "page size"},
				{Name: "before", Kind: "integer", Words: "nextBefore of the previous page"},
			},
			Status: 200, Out: listAuditResponseJSON{}, Handle: s.listAudit},
	}
}

func (s *API) listMembers(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	d := s.SignIn
	users, err := d.Store.Users(r.Context())
	if err != nil {
		return err
	}
	out := listMembersResponseJSON{Items: []userJSON{}}
	for _, u := range users {
		out.Items = append(out.Items, userOf(u))
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

// mayCare returns nil if the caller may create or change users of the role.
// Owners may change anyone; admins may change everyone but admins and owners.
func mayCare(who account.APIKey, role account.Role) error {
	if role.Covers(account.Admin) && !who.Role.Covers(account.Owner) {
		return fault.Denied("only owners may add and change admins and owners").Named(rest.CodeRole).Hint("ask an owner")
	}
	return nil
}

func (s *API) inviteMember(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	err := s.careOfMembers(who)
	if err != nil {
		return err
	}
	var in inviteRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	u := account.User{Role: account.Member}
	if err := rename(&u, &in.FirstName, &in.LastName); err != nil {
		return err
	}
	if u.Email, err = parseEmail(in.Email); err != nil {
		return err
	}
	if in.Role != "" {
		if u.Role, err = account.ParseRole(in.Role); err != nil {
			return err
		}
	}
	if err := mayCare(who, u.Role); err != nil {
		return err
	}
	if u, err = s.Accounts.AddUser(r.Context(), u); err != nil {
		return takenEmail(err)
	}
	link, err := s.newLink(r, u.ID)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, inviteResponseJSON{Member: userOf(u), Link: link})
}

func takenEmail(err error) error {
	switch {
	case errors.Is(err, store.ErrExists):
		return fault.Conflict("another user has this address").At("email")
	case errors.Is(err, store.ErrLastOwner):
		return fault.Conflict("you are the only owner of this server").Hint("make somebody else an owner first")
	}
	return err
}

func parseEmail(text string) (string, error) {
	a, err := mail.ParseAddress(text)
	if err != nil || a.Address != text || len(text) > 254 { // 254 is the maximum length in RFC 5321
		return "", fault.Invalid("is not an e-mail address").Hint("use an address such as ada@example.com").At("email")
	}
	return text, nil
}

func (s *API) newLink(r *http.Request, userID int64) (linkJSON, error) {
	url, expires, err := s.SignIn.NewLink(r.Context(), userID)
	return linkJSON{URL: url, ExpiresAt: rest.Stamp(expires)}, err
}

// careOfMembers rejects sub-tokens. Otherwise a token that is valid for an hour
// could obtain a lasting session, through a sign-in link or by changing the
// e-mail address by which the provider identifies a member.
func (s *API) careOfMembers(who account.APIKey) error {
	if who.Kind == account.SubToken {
		return fault.Denied("a sub-token cannot add or change members").Named("key_not_supported").Hint("use an admin's own key or session")
	}
	return nil
}

// member returns the user in the request's path, if the caller may change that
// user.
func (s *API) member(r *http.Request, who account.APIKey) (account.User, error) {
	if err := s.careOfMembers(who); err != nil {
		return account.User{}, err
	}
	missing := fault.NotFound("no user %s", fault.Quoted(r.PathValue("userId")))
	id, err := strconv.ParseInt(r.PathValue("userId"), 10, 64)
	if err != nil {
		return account.User{}, missing
	}
	u, err := s.Accounts.User(r.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return u, missing
	}
	if err != nil {
		return u, err
	}
	return u, mayCare(who, u.Role)
}

func (s *API) updateMember(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	d := s.SignIn
	u, err := s.member(r, who)
	if err != nil {
		return err
	}
	var in updateMemberRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	u, err = d.Store.UpdateUser(r.Context(), u.ID, func(u *account.User) (err error) {
		if err := mayCare(who, u.Role); err != nil { // the user's role may have changed meanwhile
			return err
		}
		if in.Email != nil {
			if u.Email, err = parseEmail(*in.Email); err != nil {
				return err
			}
		}
		if in.Role != nil {
			if u.Role, err = account.ParseRole(*in.Role); err != nil {
				return err
			}
			if err := mayCare(who, u.Role); err != nil {
				return err
			}
		}
		if in.Disabled != nil {
			u.Disabled = *in.Disabled
		}
		return rename(u, in.FirstName, in.LastName)
	})
	if err != nil {
		return takenEmail(err)
	}
	return rest.WriteJSON(w, http.StatusOK, userOf(u))
}

// rename sets each name that is not nil.
func rename(u *account.User, first, last *string) error {
	for _, one := range []struct {
		field string
		to    *string
		given *string
	}{{"firstName", &u.FirstName, first}, {"lastName", &u.LastName, last}} {
		if one.given == nil {
			continue
		}
		if len(*one.given) > maxName {
			return fault.Invalid("must be at most %d bytes", maxName).At(one.field)
		}
		*one.to = strings.TrimSpace(*one.given)
	}
	return nil
}

// maxName is the maximum length of a person's or key's name, in bytes.
const maxName = 100

func (s *API) createSignInLink(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	u, err := s.member(r, who)
	if err != nil {
		return err
	}
	link, err := s.newLink(r, u.ID)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, link)
}
