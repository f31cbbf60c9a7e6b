package accounts

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

type keyJSON struct {
	_         struct{}   `json:"-" additionalProperties:"true"`
	ID        int64      `json:"id"`
	Kind      string     `json:"kind" enum:"key,sub-token,session"`
	Name      string     `json:"name" doc:"for a session, the browser's user agent"`
	Current   bool       `json:"current,omitempty" doc:"this request uses it"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

type listKeysResponseJSON struct {
	_     struct{}  `json:"-" additionalProperties:"true"`
	Items []keyJSON `json:"items" nullable:"false"`
}

type createKeyRequestJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Name    string   `json:"name" minLength:"1" maxLength:"100"`
	Expires int      `json:"expiresInDays,omitempty" minimum:"1" maximum:"3650" doc:"default never"`
}

type createKeyResponseJSON struct {
	keyJSON
	Key string `json:"key" doc:"shown only in this reply"`
}

type passkeyJSON struct {
	_         struct{}   `json:"-" additionalProperties:"true"`
	ID        string     `json:"id" doc:"in base64url"`
	Name      string     `json:"name"`
	CreatedAt time.Time  `json:"createdAt"`
	UsedAt    *time.Time `json:"usedAt,omitempty"`
}

type listPasskeysResponseJSON struct {
	_     struct{}      `json:"-" additionalProperties:"true"`
	Items []passkeyJSON `json:"items" nullable:"false"`
}

type setPasswordRequestJSON struct {
	_        struct{} `json:"-" additionalProperties:"true"`
	Current  string   `json:"current,omitempty" doc:"required if you have a password"`
	Password string   `json:"password" minLength:"12"`
}

type updateMeRequestJSON struct {
	_         struct{} `json:"-" additionalProperties:"true"`
	Email     *string  `json:"email,omitempty" format:"email" doc:"only if you have none yet; later changes are made by an admin"`
	FirstName *string  `json:"firstName,omitempty" maxLength:"100"`
	LastName  *string  `json:"lastName,omitempty" maxLength:"100"`
}

// keyRoutes are the routes with which users of any role manage their own
// account.
func (s *API) keyRoutes() []rest.Route {
	return []rest.Route{
		{Method: "PATCH", Path: "/v1/me/profile", ID: "updateMe", Summary: "Change your name", Needs: account.Viewer,
			In: updateMeRequestJSON{}, Status: 200, Out: userJSON{}, Handle: s.updateMe},
		{Method: "PUT", Path: "/v1/me/password", ID: "setPassword", Summary: "Set your password and end your other sessions", Needs: account.Viewer,
			In: setPasswordRequestJSON{}, Status: 204, Handle: s.setPassword},
		{Method: "GET", Path: "/v1/me/keys", ID: "listKeys", Summary: "List your API keys and sessions, newest first",
			Status: 200, Out: listKeysResponseJSON{}, Handle: s.listKeys},
		{Method: "POST", Path: "/v1/me/keys", ID: "createKey", Summary: "Create an API key", Needs: account.Viewer,
			In: createKeyRequestJSON{}, Status: 201, Out: createKeyResponseJSON{}, Handle: s.createKey},
		{Method: "DELETE", Path: "/v1/me/keys/{keyId}", ID: "deleteKey", Summary: "Delete an API key, or end a session", Needs: account.Viewer,
			Status: 204, Handle: s.deleteKey},
		{Method: "GET", Path: "/v1/me/passkeys", ID: "listPasskeys", Summary: "List your passkeys", Status: 200, Out: listPasskeysResponseJSON{}, Handle: s.listPasskeys},
		{Method: "POST", Path: "/v1/me/passkey-ceremonies", ID: "beginPasskey", Summary: "Start registering a passkey", Needs: account.Viewer,
			Status: 200, Out: ceremonyJSON{}, Handle: s.beginPasskey},
		{Method: "POST", Path: "/v1/me/passkeys", ID: "createPasskey", Summary: "Finish registering a passkey", Needs: account.Viewer,
			In: passkeyAnswerJSON{}, Status: 201, Out: passkeyJSON{}, Handle: s.createPasskey},
		{Method: "DELETE", Path: "/v1/me/passkeys/{passkeyId}", ID: "deletePasskey", Summary: "Remove a passkey", Needs: account.Viewer,
			Status: 204, Handle: s.deletePasskey},
	}
}

// selfCare rejects sub-tokens. A sub-token acts for a user, but must not manage
// the user's account.
func (s *API) selfCare(who account.APIKey) error {
	if who.Kind == account.SubToken {
		return fault.Denied("a sub-token cannot change its user's account").Named("key_not_supported").Hint("use the user's own key or session")
	}
	return nil
}

func (s *API) updateMe(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.selfCare(who); err != nil {
		return err
	}
	var in updateMeRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	u, err := s.SignIn.Store.UpdateUser(r.Context(), who.UserID, func(u *account.User) (err error) {
		if in.Email != nil && *in.Email != u.Email {
			if u.Email != "" && !who.Role.Covers(account.Admin) {
				return fault.Denied("only an admin can change your e-mail address").At("email")
			}
			if u.Email, err = parseEmail(*in.Email); err != nil {
				return err
			}
		}
		return rename(u, in.FirstName, in.LastName)
	})
	if err != nil {
		return takenEmail(err)
	}
	return rest.WriteJSON(w, http.StatusOK, userOf(u))
}

func (s *API) setPassword(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.selfCare(who); err != nil {
		return err
	}
	var in setPasswordRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if err := s.SignIn.SetPassword(r.Context(), who, in.Current, in.Password); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func keyOf(k, current account.APIKey) keyJSON {
	out := keyJSON{ID: k.ID, Kind: string(k.Kind), Name: k.Name, Current: k.ID == current.ID, CreatedAt: rest.Stamp(k.CreatedAt)}
	if !k.ExpiresAt.IsZero() {
		out.ExpiresAt = &k.ExpiresAt
	}
	return out
}

func (s *API) listKeys(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	d := s.SignIn
	keys, err := d.Store.Keys(r.Context(), who.UserID)
	if err != nil {
		return err
	}
	out := listKeysResponseJSON{Items: []keyJSON{}}
	for _, k := range keys {
		out.Items = append(out.Items, keyOf(k, who))
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) createKey(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.selfCare(who); err != nil {
		return err
	}
	var in createKeyRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	switch in.Name = strings.TrimSpace(in.Name); {
	case in.Name == "":
		return fault.Invalid("is required: say what the key is for").At("name")
	case len(in.Name) > maxName:
		return fault.Invalid("must be at most %d bytes", maxName).At("name")
	case in.Expires < 0 || in.Expires > 3650:
		return fault.Invalid("must be a number of days from 1 to 3650").At("expiresInDays")
	}
	if err := s.mayHaveMoreKeys(r.Context(), who.UserID); err != nil {
		return err
	}
	key := account.NewKey()
	k := account.APIKey{Kind: account.Lasting, Name: in.Name, UserID: who.UserID, Hash: account.HashKey(key)}
	if in.Expires > 0 {
		k.ExpiresAt = rest.Stamp(time.Now().AddDate(0, 0, in.Expires))
	}
	k, err := s.Accounts.AddKey(r.Context(), k)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, createKeyResponseJSON{keyOf(k, who), key})
}

// maxKeys is how many API keys a user may have.
const maxKeys = 100

// mayHaveMoreKeys returns a fault if the user has maxKeys API keys. Expired keys,
// sessions and sub-tokens do not count.
func (s *API) mayHaveMoreKeys(ctx context.Context, userID int64) error {
	all, err := s.SignIn.Store.Keys(ctx, userID)
	if err != nil {
		return err
	}
	lasting := 0
	for _, k := range all {
		if k.Kind == account.Lasting {
			lasting++
		}
	}
	if lasting >= maxKeys {
		return fault.Exhausted("you have %d API keys, and cannot have more than %d", lasting, maxKeys).
			Hint("delete keys that you no longer use: `aloft key list`, `aloft key delete`")
	}
	return nil
}

func (s *API) deleteKey(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.selfCare(who); err != nil {
		return err
	}
	id, err := strconv.ParseInt(r.PathValue("keyId"), 10, 64)
	if err != nil {
		err = store.ErrNotFound
	} else {
		err = s.SignIn.Store.RemoveKey(r.Context(), who.UserID, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = fault.NotFound("no key %s", fault.Quoted(r.PathValue("keyId"))).Named("api_key_not_found")
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func passkeyOf(p account.Passkey) passkeyJSON {
	out := passkeyJSON{ID: base64.RawURLEncoding.EncodeToString(p.ID), Name: p.Name, CreatedAt: rest.Stamp(p.CreatedAt)}
	if !p.UsedAt.IsZero() {
		out.UsedAt = &p.UsedAt
	}
	return out
}

func (s *API) listPasskeys(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	d := s.SignIn
	keys, err := d.Store.Passkeys(r.Context(), who.UserID)
	if err != nil {
		return err
	}
	out := listPasskeysResponseJSON{Items: []passkeyJSON{}}
	for _, p := range keys {
		out.Items = append(out.Items, passkeyOf(p))
	}
	return rest.WriteJSON(w, http.StatusOK, out)
}

func (s *API) beginPasskey(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.selfCare(who); err != nil {
		return err
	}
	options, name, err := s.SignIn.BeginPasskey(r.Context(), who.UserID)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, ceremonyJSON{Ceremony: name, Options: options})
}

func (s *API) createPasskey(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.selfCare(who); err != nil {
		return err
	}
	var in passkeyAnswerJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if len(in.Name) > maxName {
		return fault.Invalid("must be at most %d bytes", maxName).At("name")
	}
	p, err := s.SignIn.FinishPasskey(r.Context(), who.UserID, in.Ceremony, in.Name, in.Response)
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, passkeyOf(p))
}

func (s *API) deletePasskey(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if err := s.selfCare(who); err != nil {
		return err
	}
	id, err := base64.RawURLEncoding.DecodeString(r.PathValue("passkeyId"))
	if err != nil {
		return fault.NotFound("no passkey %s", fault.Quoted(r.PathValue("passkeyId")))
	}
	if err := s.SignIn.Store.RemovePasskey(r.Context(), who.UserID, id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
