package accounts

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/signin"
	"aloft/internal/fault"
)

type signedInJSON struct {
	_         struct{}   `json:"-" additionalProperties:"true"`
	SignedIn  bool       `json:"signedIn"`
	User      *userJSON  `json:"user,omitempty" doc:"signed-in user"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"when the session ends"`
	Password  bool       `json:"password" doc:"whether the user has a password"`
	Passkey   bool       `json:"passkey" doc:"whether passkeys work at this server's address"`
	Provider  string     `json:"provider,omitempty" doc:"name of the OpenID Connect provider, if any; sign in with GET /v1/session/provider"`
}

type signInRequestJSON struct {
	_        struct{}           `json:"-" additionalProperties:"true"`
	Email    string             `json:"email,omitempty" doc:"with password"`
	Password string             `json:"password,omitempty"`
	Key      string             `json:"key,omitempty" doc:"instead: an API key"`
	Link     string             `json:"link,omitempty" doc:"instead: the text after #link= in a sign-in link"`
	Passkey  *passkeyAnswerJSON `json:"passkey,omitempty" doc:"instead: a passkey response"`
}

type passkeyAnswerJSON struct {
	_        struct{}        `json:"-" additionalProperties:"true"`
	Ceremony string          `json:"ceremony" doc:"from the start of the ceremony"`
	Response json.RawMessage `json:"response" doc:"the browser's PublicKeyCredential, by its toJSON"`
	Name     string          `json:"name,omitempty" maxLength:"100" doc:"name of a new passkey"`
}

type ceremonyJSON struct {
	_        struct{}        `json:"-" additionalProperties:"true"`
	Ceremony string          `json:"ceremony"`
	Options  json.RawMessage `json:"options" doc:"for the browser's PublicKeyCredential.parseCreationOptionsFromJSON or parseRequestOptionsFromJSON"`
}

func (s *API) sessionRoutes() []rest.Route {
	return []rest.Route{
		{Method: "GET", Path: "/v1/session", ID: "getSession", Summary: "Show who is signed in with this browser, and the ways to sign in", Open: true,
			Status: 200, Out: signedInJSON{}, Handle: s.getSession},
		{Method: "POST", Path: "/v1/session", ID: "signIn", Summary: "Sign in, by password, passkey or link; the reply sets a cookie", Open: true,
			In: signInRequestJSON{}, Status: 201, Out: signedInJSON{}, Handle: s.signIn},
		{Method: "DELETE", Path: "/v1/session", ID: "signOut", Summary: "Sign out", Needs: account.Viewer, Status: 204, Handle: s.signOut},
		{Method: "POST", Path: "/v1/session/passkey", ID: "beginPasskeySignIn", Summary: "Start signing in with a passkey", Open: true,
			Status: 200, Out: ceremonyJSON{}, Handle: s.beginPasskeySignIn},
		{Method: "GET", Path: "/v1/session/provider", ID: "visitProvider", Summary: "Start signing in at the OpenID Connect provider", Open: true,
			Status: 302, Handle: s.visitProvider},
		{Method: "GET", Path: signin.CallbackPath, ID: "providerCallback", Summary: "Finish signing in at the provider (redirect URI)", Open: true,
			Query:  []rest.Param{{Name: "code", Kind: "string", Words: "from the provider"}, {Name: "state", Kind: "string", Words: "from the start of the sign-in"}},
			Status: 302, Handle: s.providerCallback},
	}
}

// maxSignIn is the maximum body size of a request without authentication, in
// bytes.
const maxSignIn = 64 << 10

func (s *API) getSession(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	who, err := s.Identify(r)
	if err != nil && !fault.Is(err, fault.KindUnauthenticated) {
		return err
	}
	return s.writeSession(w, r, http.StatusOK, who)
}

// writeSession replies with the signed-in user. If the key belongs to no user,
// nobody is signed in.
func (s *API) writeSession(w http.ResponseWriter, r *http.Request, status int, who account.APIKey) error {
	m := s.SignIn.Methods()
	out := signedInJSON{SignedIn: who.UserID != 0, Passkey: m.Passkey, Provider: m.Provider}
	if out.SignedIn {
		u, err := s.Accounts.User(r.Context(), who.UserID)
		if err != nil {
			return err
		}
		user := userOf(u)
		out.User = &user
		if !who.ExpiresAt.IsZero() {
			out.ExpiresAt = &who.ExpiresAt
		}
		hash, err := s.SignIn.Store.Password(r.Context(), u.ID)
		if err != nil {
			return err
		}
		out.Password = hash != ""
	}
	return rest.WriteJSON(w, status, out)
}

func (s *API) signIn(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	d := s.SignIn
	if err := rest.SameSite(r, s.PublicURL()); err != nil && rest.FromBrowser(r) {
		return err // a page of another site must not sign its visitors in as somebody else
	}
	var in signInRequestJSON
	r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	var session signin.Session
	var err error
	switch ctx, from, browser := r.Context(), s.AddressOf(r), r.UserAgent(); {
	case in.Passkey != nil:
		session, err = d.WithPasskey(ctx, in.Passkey.Ceremony, in.Passkey.Response, from, browser)
	case in.Key != "":
		session, err = d.WithKey(ctx, in.Key, from, browser)
	case in.Link != "":
		session, err = d.WithLink(ctx, in.Link, from, browser)
	case in.Email == "":
		return fault.Invalid("give email and password, a passkey, a link or a key")
	default:
		session, err = d.WithPassword(ctx, in.Email, in.Password, from, browser)
	}
	s.auditSignIn(r, session, in.Email, err)
	if err != nil {
		return err
	}
	s.setCookie(w, session.Token, session.ExpiresAt)
	return s.writeSession(w, r, http.StatusCreated, session.APIKey)
}

// auditSignIn records successful and failed sign-ins. It does not record
// requests that were rejected before any check, because anyone could fill the
// disk with them.
func (s *API) auditSignIn(r *http.Request, session signin.Session, email string, err error) {
	if !fault.Is(err, fault.KindExhausted) && !fault.Is(err, fault.KindInvalid) {
		s.Audit(r, "signIn", session.UserID, email, err)
	}
}

func (s *API) signOut(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	d := s.SignIn
	if who.Kind != account.Session {
		return fault.Invalid("this is an API key, not a session").Hint("to revoke it, delete the key")
	}
	if err := d.Store.RemoveKey(r.Context(), who.UserID, who.ID); err != nil {
		return err
	}
	s.setCookie(w, "", time.Unix(1, 0))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *API) beginPasskeySignIn(w http.ResponseWriter, _ *http.Request, _ account.APIKey) error {
	d := s.SignIn
	options, name, err := d.BeginSignIn()
	if err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, ceremonyJSON{Ceremony: name, Options: options})
}

// visitCookie holds the OAuth state of a sign-in with the identity provider.
// The provider's redirect must contain the same state.
const visitCookie = "aloft_visit"

func (s *API) visitProvider(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	d := s.SignIn
	address, state, err := d.BeginVisit(r.Context())
	if err != nil {
		return err
	}
	http.SetCookie(w, s.VisitCookie(visitCookie, signin.CallbackPath, state))
	http.Redirect(w, r, address, http.StatusFound)
	return nil
}

// providerCallback always redirects to the dashboard, since the client is a
// person's browser. Of an error it passes only the code to the dashboard, so
// that nobody can craft a link that shows text of their choice.
func (s *API) providerCallback(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	d := s.SignIn
	q := r.URL.Query()
	session, err := d.EndVisit(r.Context(), q.Get("code"), q.Get("state"), s.VisitState(r, visitCookie), r.UserAgent())
	s.auditSignIn(r, session, "", err)
	http.SetCookie(w, s.VisitCookie(visitCookie, signin.CallbackPath, ""))
	to := "/"
	if err != nil {
		s.Logger.WarnContext(r.Context(), "sign-in at the provider failed", "error", err)
		to = "/sign-in#error=" + url.QueryEscape(rest.FaultOf(err).Code)
	} else {
		s.setCookie(w, session.Token, session.ExpiresAt)
	}
	http.Redirect(w, r, to, http.StatusFound)
	return nil
}

func (s *API) setCookie(w http.ResponseWriter, token string, expires time.Time) {
	http.SetCookie(w, &http.Cookie{
		Name: s.CookieName(), Value: token, Path: "/", Expires: expires, HttpOnly: true, Secure: s.Secure(), SameSite: http.SameSiteStrictMode,
	})
}
