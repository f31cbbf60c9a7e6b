package signin

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/account"
	"aloft/internal/fault"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

const (
	home   = "https://aloft.example.com"
	client = "aloft"
)

// newProvider starts a provider with people whose password is "verysecure".
func newProvider(t *testing.T) string {
	t.Helper()
	users := map[string]storage.User{}
	for name, verified := range map[string]bool{"ada": true, "eve": false} {
		users[name] = storage.User{
			ID: name, Username: name, Password: "verysecure", FirstName: strings.ToUpper(name), Email: name + "@example.com", EmailVerified: verified,
		}
	}
	data, err := json.Marshal(users)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "users.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	people, err := storage.StoreFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	storage.RegisterClients(storage.WebClient(client, "secret", home+CallbackPath))
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	handler = exampleop.SetupServer(server.URL, storage.NewStorage(people), slog.New(slog.DiscardHandler), false)
	return server.URL
}

// visitAs goes to the provider's address as a browser, signs in there, and
// returns what it is sent back with.
func visitAs(t *testing.T, address, name string) url.Values {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var back url.Values
	browser := http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), home+CallbackPath) {
			back = r.URL.Query()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	form := page.Request.URL
	text, err := io.ReadAll(page.Body)
	if err != nil || page.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", form, page.Status, err, text)
	}
	done, err := browser.PostForm(form.Scheme+"://"+form.Host+"/login/username",
		url.Values{"id": {form.Query().Get("authRequestID")}, "username": {name}, "password": {"verysecure"}})
	if err != nil {
		t.Fatal(err)
	}
	defer done.Body.Close()
	if back == nil {
		text, _ := io.ReadAll(done.Body)
		t.Fatalf("the provider sends nobody back: %s: %s", done.Status, text)
	}
	return back
}

func TestProvider(t *testing.T) {
	d, s := newDesk(t, home)
	d.Provider = &Provider{Name: "Example", Issuer: newProvider(t), ClientID: client, ClientSecret: "secret"}
	if m := d.Methods(); m.Provider != "Example" {
		t.Errorf("methods %+v", m)
	}
	signIn := func(name string) (Session, error) {
		t.Helper()
		address, state, err := d.BeginVisit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		back := visitAs(t, address, name)
		return d.EndVisit(t.Context(), back.Get("code"), back.Get("state"), state, "")
	}
	_, err := signIn("ada")
	wantKind(t, "nobody's address", err, fault.KindDenied)
	u := addUser(t, s, "Ada@example.com")
	addUser(t, s, "eve@example.com")
	_, err = signIn("eve")
	wantKind(t, "an address that is not verified", err, fault.KindDenied)
	session, err := signIn("ada")
	if err != nil || session.UserID != u.ID {
		t.Fatalf("session %+v, %v", session, err)
	}
	u.Email = "other@example.com"
	if _, err := s.UpdateUser(t.Context(), u.ID, to(u)); err != nil {
		t.Fatal(err)
	}
	if session, err = signIn("ada"); err != nil || session.UserID != u.ID {
		t.Errorf("with another address here: %+v, %v", session, err)
	}
}

func TestProviderWelcomes(t *testing.T) {
	d, s := newDesk(t, home)
	d.Provider = &Provider{
		Name: "Example", Issuer: newProvider(t), ClientID: client, ClientSecret: "secret", Domains: []string{"Example.com"}, Role: account.Viewer,
	}
	address, state, err := d.BeginVisit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back := visitAs(t, address, "ada")
	session, err := d.EndVisit(t.Context(), back.Get("code"), back.Get("state"), state, "")
	if err != nil {
		t.Fatal(err)
	}
	if u, err := s.User(t.Context(), session.UserID); err != nil || u.Email != "ada@example.com" || u.FirstName != "ADA" || u.Role != account.Viewer {
		t.Errorf("the new user is %+v, %v", u, err)
	}
}

// What comes back has to be what went: the browser, the visit, the code.
func TestProviderForged(t *testing.T) {
	d, s := newDesk(t, home)
	issuer := newProvider(t)
	d.Provider = &Provider{Name: "Example", Issuer: issuer, ClientID: client, ClientSecret: "secret"}
	addUser(t, s, "ada@example.com")
	begin := func() (url.Values, string) {
		t.Helper()
		address, state, err := d.BeginVisit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return visitAs(t, address, "ada"), state
	}
	back, state := begin()
	_, err := d.EndVisit(t.Context(), back.Get("code"), state, "another browser's", "")
	wantKind(t, "in another browser", err, fault.KindInvalid)
	_, err = d.EndVisit(t.Context(), back.Get("code"), state, state, "")
	wantKind(t, "a second time", err, fault.KindInvalid)
	_, state = begin()
	_, err = d.EndVisit(t.Context(), "made up", state, state, "")
	wantKind(t, "a code that the provider did not give", err, fault.KindUnauthenticated)
	theirs, _ := begin()
	_, state = begin()
	_, err = d.EndVisit(t.Context(), theirs.Get("code"), state, state, "")
	wantKind(t, "a code of another visit", err, fault.KindUnauthenticated)
	d.Provider = &Provider{Name: "Example", Issuer: issuer + "/nowhere", ClientID: client}
	_, _, err = d.BeginVisit(t.Context())
	wantKind(t, "a provider that is away", err, fault.KindUnavailable)
}
