package api

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"aloft/internal/account"
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

func (s *server) sessionRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/session", id: "getSession", summary: "Show who is signed in with this browser, and the ways to sign in", open: true,
			status: 200, out: signedInJSON{}, handle: s.getSession},
		{method: "POST", path: "/v1/session", id: "signIn", summary: "Sign in, by password, passkey or link; the reply sets a cookie", open: true,
			in: signInRequestJSON{}, status: 201, out: signedInJSON{}, handle: s.signIn},
		{method: "DELETE", path: "/v1/session", id: "signOut", summary: "Sign out", needs: account.Viewer, status: 204, handle: s.signOut},
		{method: "POST", path: "/v1/session/passkey", id: "beginPasskeySignIn", summary: "Start signing in with a passkey", open: true,
			status: 200, out: ceremonyJSON{}, handle: s.beginPasskeySignIn},
		{method: "GET", path: "/v1/session/provider", id: "visitProvider", summary: "Start signing in at the OpenID Connect provider", open: true,
			status: 302, handle: s.visitProvider},
		{method: "GET", path: signin.CallbackPath, id: "providerCallback", summary: "Finish signing in at the provider (redirect URI)", open: true,
			query:  []param{{name: "code", kind: "string", words: "from the provider"}, {name: "state", kind: "string", words: "from the start of the sign-in"}},
			status: 302, handle: s.providerCallback},
	}
}

// maxSignIn is the maximum body size of a request without authentication, in
// bytes.
const maxSignIn = 64 << 10

func (s *server) desk() (*signin.Desk, error) {
	if s.SignIn == nil {
		return nil, fault.NotImplemented("sign-in is not enabled on this server").Named(codeOff).Hint("use an API key")
	}
	return s.SignIn, nil
}

func (s *server) getSession(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	if _, err := s.desk(); err != nil {
		return err
	}
	who, err := s.identify(r)
	if err != nil && !fault.Is(err, fault.KindUnauthenticated) {
		return err
	}
	return s.writeSession(w, r, http.StatusOK, who)
}

// writeSession replies with the signed-in user. If the key belongs to no user,
// nobody is signed in.
func (s *server) writeSession(w http.ResponseWriter, r *http.Request, status int, who account.APIKey) error {
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
	return writeJSON(w, status, out)
}

func (s *server) signIn(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	d, err := s.desk()
	if err != nil {
		return err
	}
	if err := sameSite(r, s.PublicURL()); err != nil && fromBrowser(r) {
		return err // a foreign page must not sign its visitors in as somebody else
	}
	var in signInRequestJSON
	r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
	if err := readBody(w, r, &in); err != nil {
		return err
	}
	var session signin.Session
	switch ctx, from, browser := r.Context(), s.addressOf(r), r.UserAgent(); {
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

// auditSignIn records successful and failed sign-ins. Requests that were
// rejected before any check are not recorded: anyone can send them without end,
// and the log would fill the disk.
func (s *server) auditSignIn(r *http.Request, session signin.Session, email string, err error) {
	if !fault.Is(err, fault.KindExhausted) && !fault.Is(err, fault.KindInvalid) {
		s.audit(r, "signIn", session.UserID, email, err)
	}
}

func (s *server) signOut(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	d, err := s.desk()
	if err != nil {
		return err
	}
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

func (s *server) beginPasskeySignIn(w http.ResponseWriter, _ *http.Request, _ account.APIKey) error {
	d, err := s.desk()
	if err != nil {
		return err
	}
	options, name, err := d.BeginSignIn()
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, ceremonyJSON{Ceremony: name, Options: options})
}

// visitCookie holds the state of a visit to the identity provider. The
// provider's redirect must bring the same state.
const visitCookie = "aloft_visit"

func (s *server) visitProvider(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	d, err := s.desk()
	if err != nil {
		return err
	}
	address, state, err := d.BeginVisit(r.Context())
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{
		Name: visitCookie, Value: state, Path: signin.CallbackPath, MaxAge: 600, HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, address, http.StatusFound)
	return nil
}

// providerCallback always redirects to the dashboard, since the client is a
// person's browser. An error is passed as its code only, so that nobody can
// craft a link that shows their own text.
func (s *server) providerCallback(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	d, err := s.desk()
	if err != nil {
		return err
	}
	kept := ""
	if c, err := r.Cookie(visitCookie); err == nil {
		kept = c.Value
	}
	q := r.URL.Query()
	session, err := d.EndVisit(r.Context(), q.Get("code"), q.Get("state"), kept, r.UserAgent())
	s.auditSignIn(r, session, "", err)
	http.SetCookie(w, &http.Cookie{Name: visitCookie, Path: signin.CallbackPath, MaxAge: -1, HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteLaxMode})
	to := "/"
	if err != nil {
		s.Logger.WarnContext(r.Context(), "sign-in at the provider failed", "error", err)
		to = "/sign-in#error=" + url.QueryEscape(faultOf(err).Code)
	} else {
		s.setCookie(w, session.Token, session.ExpiresAt)
	}
	http.Redirect(w, r, to, http.StatusFound)
	return nil
}

// secure reports whether browsers reach the server over https.
func (s *server) secure() bool { return strings.HasPrefix(s.PublicURL(), "https:") }

// cookieName returns the name of the session cookie. Under https, the __Host-
// prefix makes browsers accept it from this host only, not from its subdomains.
func (s *server) cookieName() string {
	if s.secure() {
		return "__Host-aloft"
	}
	return "aloft_session"
}

func (s *server) setCookie(w http.ResponseWriter, token string, expires time.Time) {
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(), Value: token, Path: "/", Expires: expires, HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteStrictMode,
	})
}

// addressOf returns the address that a request came from. Where that is a
// trusted proxy, it is the address that the proxy has appended to
// X-Forwarded-For, and so on over a chain of trusted proxies. Nobody else's
// header counts.
func (s *server) addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	chain := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for len(chain) > 0 && s.trusts(host) {
		from, err := netip.ParseAddr(strings.TrimSpace(chain[len(chain)-1]))
		if err != nil {
			break
		}
		host, chain = from.Unmap().WithZone("").String(), chain[:len(chain)-1]
	}
	return host
}

// trusts reports whether a host is one of the configured proxies.
func (s *server) trusts(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr.Unmap().WithZone("")) })
}
